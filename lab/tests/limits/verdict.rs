//! A verdict on the load does not turn into its opposite as the run gets longer.

use reports::interval::Replicated;
use sim::metrics::LoadVerdict;
use sim::simulation::Simulation;

use crate::tune::library;

fn verdict(utilisation: f64, horizon_s: f64) -> LoadVerdict {
    // Exponential gaps, answers of 1 s on average, one lane.
    let world = library().world(&format!(
        "title = 'queue'\nsoc = 'toy'\nmodel = 'vlm'\npolicy = {{ single = {{ lane = 'a' }} }}\n\
         [run]\nhorizon_s = {horizon_s}\n[modes]\nstate_transfer = 'reconstruct'\n\
         [[streams]]\nname = 's'\n[streams.queries]\n\
         arrivals = {{ poisson = {{ rate_hz = {utilisation} }} }}\nprompt_tokens = 1\n\
         output_tokens = {{ geometric = {{ mean = 100 }} }}\nmax_output_tokens = 3000\n"
    ));
    let world = world.expect("the scenario is right");
    let mut simulation = Simulation::new(&world);
    let summaries = (0..10).map(|run| {
        simulation.run(run).expect("runs");
        simulation.summary()
    });
    Replicated {
        summaries: summaries.collect(),
    }
    .verdict()
}

#[test]
fn no_verdict_flips_with_the_horizon() {
    for utilisation in [0.6, 0.8, 0.9, 0.95, 1.05, 1.1, 1.3] {
        let all: Vec<LoadVerdict> = [150.0, 300.0, 600.0, 1200.0, 2400.0, 4800.0]
            .map(|horizon_s| verdict(utilisation, horizon_s))
            .to_vec();
        let wrong = if utilisation < 1.0 {
            LoadVerdict::Saturated
        } else {
            LoadVerdict::Steady
        };
        assert!(!all.contains(&wrong), "{utilisation}: {all:?}");
    }
    // And where it can be told, it is.
    assert_eq!(verdict(0.6, 4800.0), LoadVerdict::Steady);
    assert_eq!(verdict(1.3, 600.0), LoadVerdict::Saturated);
}
