//! scratch
use validation::folder::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let text = std::fs::read_to_string(&a[1]).unwrap();
    let lib = Folder::new("profiles");
    let inputs = match sim::load::Inputs::read(&a[1], &text, &lib, &Disk) {
        Ok(i) => i,
        Err(f) => {
            println!("{f}");
            return;
        }
    };
    let world = inputs.world().unwrap();
    for w in &world.warnings {
        println!("warning: {w}");
    }
    let list: Vec<String> = if a.len() > 2 {
        a[2..].to_vec()
    } else {
        [
            "state_aware",
            "state_aware:w",
            "state_aware:w+p",
            "single:cpu",
            "single:gpu",
            "serial",
            "naive",
            "idle_first",
            "reuse_first",
            "fixed",
            "round_robin",
            "shortest_job_first",
            "earliest_deadline_first",
        ]
        .iter()
        .map(|s| s.to_string())
        .collect()
    };
    for p in list {
        let parsed = match sim::load::parse_policy(
            &p,
            &world
                .lanes
                .iter()
                .map(|l| l.name.as_str())
                .collect::<Vec<_>>(),
        ) {
            Ok(p) => p,
            Err(e) => {
                println!("{p}: {e}");
                continue;
            }
        };
        let w = match inputs.with_policy(&parsed) {
            Ok(w) => w,
            Err(e) => {
                println!("{p}: {e}");
                continue;
            }
        };
        let mut s = sim::simulation::Simulation::new(&w);
        let mut acc = vec![];
        for r in 0..w.replications {
            let mut c = sim::check::Check::new(&w);
            s.run_into(r, &mut c);
            let v = c.violations();
            if !v.is_empty() {
                println!("VIOLATION {p} run {r}: {v:#?}");
                break;
            }
            acc.push(s.summary());
        }
        if acc.is_empty() {
            continue;
        }
        let n = acc.len() as f64;
        let m =
            |f: &dyn Fn(&sim::metrics::Summary) -> f64| acc.iter().map(|x| f(x)).sum::<f64>() / n;
        println!(
            "{p:28} thr {:.4} ttft {:.3} p95 {:.3} compl {:.3} mk {:.3} stale {:.2} busy {} prep {:?} ref {:?} ev {} load {:?} {:?}",
            m(&|s| s.throughput_rps),
            m(&|s| s.ttft_s.mean.unwrap_or(f64::NAN)),
            m(&|s| s.ttft_s.p95.unwrap_or(f64::NAN)),
            m(&|s| s.completion_s.mean.unwrap_or(f64::NAN)),
            m(&|s| s.makespan_s),
            m(&|s| s.staleness_s.mean.unwrap_or(f64::NAN)),
            acc[0]
                .engines
                .iter()
                .enumerate()
                .map(|(i, e)| format!("{}={:.2}", e.name, m(&|s| s.engines[i].busy)))
                .collect::<Vec<_>>()
                .join(" "),
            acc[0].preparations,
            acc[0].refused,
            acc[0].evictions,
            acc[0].load,
            acc[0].saturation_index
        );
    }
}
