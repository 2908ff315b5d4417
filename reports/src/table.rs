//! Text for the terminal: at most 80 columns, readable without colour, units in the headers.

mod compare;
mod layout;
mod markdown;
mod run;
mod sketch;

pub use compare::{Extras, comparison};
pub use markdown::markdown;
pub use run::run;
pub use sketch::sketch;

#[cfg(test)]
mod tests {
    use screen::{WIDTH, width};
    use sim::metrics::LoadVerdict;
    use sim::simulation::Simulation;
    use sim::world::World;

    use super::*;
    use crate::facts::Facts;
    use crate::interval::Replicated;
    use crate::toy;

    fn runs(world: &World, replications: u32) -> Replicated {
        let mut simulation = Simulation::new(world);
        let summaries = (0..replications).map(|run| {
            simulation.run(run).expect("no policy stops");
            simulation.summary()
        });
        Replicated {
            summaries: summaries.collect(),
        }
    }

    fn text(scenario: &str, replications: u32) -> (String, LoadVerdict) {
        let world = toy::world(scenario);
        let runs = runs(&world, replications);
        let text = run(&Facts::of(&world, "toy.toml"), &runs);
        for line in text.lines() {
            assert!(width(line) <= WIDTH, "{line}");
            assert_eq!(line, line.trim_end());
        }
        (text, runs.verdict())
    }

    #[test]
    fn a_steady_run() {
        let (text, verdict) = text(&toy::scenario(0.2), 4);
        assert_ne!(verdict, LoadVerdict::Saturated);
        assert!(text.contains(" ± "));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_saturated_run_has_no_latencies() {
        let (text, verdict) = text(&toy::scenario(2.0), 2);
        assert_eq!(verdict, LoadVerdict::Saturated);
        let ttft = text.lines().find(|line| line.starts_with("TTFT"));
        let ttft = ttft.expect("there is a row");
        assert!(ttft.contains("– (queue grows)"));
        assert!(!ttft.contains(|c: char| c.is_ascii_digit()));
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(words.join(" ").contains("times what it can serve"));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn what_a_limit_refuses_is_not_laid_on_the_chip() {
        let limits = "[limits]\nmax_requests = 1\n[context]";
        let (text, verdict) = text(&toy::scenario(2.0).replace("[context]", limits), 2);
        assert_eq!(verdict, LoadVerdict::Saturated);
        let words: Vec<&str> = text.split_whitespace().collect();
        let words = words.join(" ");
        assert!(
            words.contains("were refused at `limits.max_requests` = 1"),
            "{words}"
        );
        assert!(!words.contains("what it can serve"), "{words}");
    }

    #[test]
    fn beside_users_who_wait_saturation_has_a_distance() {
        let user = "[[streams]]\nname = \"user\"\nqueries = { arrivals = { closed_loop = { users = 1, think_s = 5.0 \
                    } }, prompt_tokens = 20, output_tokens = 8 }\n";
        let (text, verdict) = text(&format!("{}{user}", toy::scenario(2.0)), 2);
        assert_eq!(verdict, LoadVerdict::Saturated);
        let words: Vec<&str> = text.split_whitespace().collect();
        let words = words.join(" ");
        // Two cameras ask 2 /s each; what the user asks is not in it.
        assert!(words.contains("; 4.0"), "{words}");
        let whose = "/s were answered meanwhile (of streams that do not wait for answers): ";
        assert!(words.contains(whose) && words.contains("times what it can serve"));
    }

    #[test]
    fn refusals_for_memory_are_told() {
        let small = "[limits]\nengine_kv_budget_bytes = { cpu = 5e6, npu = 5e6 }\n[[streams]]";
        let scenario = toy::scenario(0.2).replacen("[[streams]]", small, 1);
        let (text, verdict) = text(&scenario, 2);
        assert_eq!(verdict, LoadVerdict::Saturated);
        let words: Vec<&str> = text.split_whitespace().collect();
        let words = words.join(" ");
        for part in [
            "no engine can hold their context and answer",
            "queries were refused in all replications: no engine that answers may hold",
            "frames were refused in all replications: no engine that ingests may hold",
            "Conditions at most 5.00 MB of KV on cpu, 5.00 MB of KV on npu",
        ] {
            assert!(words.contains(part), "{part}\n{words}");
        }
    }

    #[test]
    fn bytes_that_no_stage_has_are_not_shown_as_none_moved() {
        let world = toy::world(&toy::scenario(0.2));
        let facts = Facts::of(&world, "toy.toml");
        let mut runs = runs(&world, 2);
        assert!(run(&facts, &runs).contains("GB/s moved on average"));
        for summary in &mut runs.summaries {
            summary.mean_bandwidth_gbps = 0.0;
        }
        let text = run(&facts, &runs);
        assert!(text.contains("\nmemory      peak ") && !text.contains("GB/s"));
    }

    #[test]
    fn no_name_can_steer_the_terminal() {
        let nasty = "\u{1b}[31m\u{7}\u{9b}";
        let text = toy::scenario(0.2);
        let mut world = toy::world(&text);
        let steady = runs(&world, 2);
        world.title = format!("{nasty} title");
        for stream in &mut world.streams {
            stream.name = format!("{nasty} stream");
        }
        for engine in &mut world.engines {
            engine.name = nasty.into();
        }
        for lane in &mut world.lanes {
            lane.name = nasty.into();
        }
        let mut named = steady.clone();
        for engine in named.summaries.iter_mut().flat_map(|s| &mut s.engines) {
            engine.name = nasty.into();
        }
        let mut facts = Facts::of(&world, &format!("{nasty}.toml"));
        facts.warnings.push(format!("{nasty} warning"));
        let (mut detail, _) = toy::detail(&text, 10);
        detail.lanes.fill(nasty.into());
        let policies = [(nasty.to_owned(), named.clone()), ("b".to_owned(), steady)];
        for text in [
            run(&facts, &named),
            comparison(&facts, &policies, &Extras::default()),
            sketch(&detail, &detail.runs[0]),
            crate::explain::explain(&world, 0, &crate::explain::Wanted::Arrival(3))
                .expect("it is there"),
        ] {
            assert!(text.contains("\\u{1b}[31m"), "{text}");
            assert!(
                !text.contains(|c: char| c.is_control() && c != '\n'),
                "{text:?}"
            );
        }
    }

    #[test]
    fn one_replication_has_no_intervals() {
        let (text, _) = text(&toy::scenario(0.2), 1);
        assert!(!text.contains('±'));
    }

    #[test]
    fn policies_side_by_side() {
        let mut world = toy::world(&toy::scenario(0.2));
        let facts = Facts::of(&world, "toy.toml");
        let lanes = ["cpu", "npu"];
        let names = ["state_aware", "serial", "single:npu", "round_robin"];
        let policies: Vec<_> = names
            .iter()
            .map(|name| {
                world.policy = sim::load::parse_policy(name, &lanes).expect("it is a policy");
                ((*name).to_owned(), runs(&world, 4))
            })
            .collect();
        let text = comparison(&facts, &policies, &Extras::default());
        for line in text.lines() {
            assert!(width(line) <= WIDTH, "{line}");
        }
        // Each policy has two rows of values, and all but the first a row of differences.
        let rows = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
        assert_eq!(rows("serial "), 3);
        assert_eq!(
            rows("state_aware "),
            3,
            "its rows and the title of the differences"
        );
        insta::assert_snapshot!(text);
    }
}
