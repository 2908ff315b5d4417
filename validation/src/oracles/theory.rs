//! The closed forms.

/// First two moments of a service time, s and s².
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moments {
    pub(super) mean: f64,
    pub(super) square: f64,
}

impl Moments {
    /// Of a time that is always the same.
    pub(super) fn constant(mean: f64) -> Self {
        Self {
            mean,
            square: mean * mean,
        }
    }

    /// Of an exponential time.
    pub(super) fn exponential(mean: f64) -> Self {
        Self {
            mean,
            square: 2.0 * mean * mean,
        }
    }

    /// Of a time drawn from a list, each entry equally often.
    pub(super) fn listed(times: &[f64]) -> Self {
        let count = times.len() as f64;
        Self {
            mean: times.iter().sum::<f64>() / count,
            square: times.iter().map(|time| time * time).sum::<f64>() / count,
        }
    }
}

/// Mean wait of M/G/1, first come first served (Pollaczek–Khinchine).
pub(super) fn pollaczek_khinchine(rate: f64, service: Moments) -> f64 {
    let utilisation = rate * service.mean;
    rate * service.square / (2.0 * (1.0 - utilisation))
}

/// Mean wait of M/M/c, first come first served (Erlang's delay formula).
pub(super) fn erlang_wait(rate: f64, mean_service: f64, servers: u32) -> f64 {
    let offered = rate * mean_service;
    let c = f64::from(servers);
    // Erlang's loss by its recursion over the servers, then the probability of waiting.
    let loss = (1..=servers).fold(1.0, |loss, n| {
        offered * loss / (f64::from(n) + offered * loss)
    });
    let waits = loss / (1.0 - offered / c * (1.0 - loss));
    waits * mean_service / (c - offered)
}

/// Mean response under processor sharing (M/G/1) of a request whose own service is `own`.
pub(super) fn processor_sharing(rate: f64, mean_service: f64, own: f64) -> f64 {
    own / (1.0 - rate * mean_service)
}

/// Mean response of a closed network of `users` who think and then visit one exponential server after
/// another, first come first served, with these mean services (exact mean value analysis; the think
/// time's distribution does not matter).
pub(super) fn closed_response(users: u32, think: f64, mean_services: &[f64]) -> f64 {
    let mut queued = vec![0.0; mean_services.len()];
    let mut response = 0.0;
    for n in 1..=users {
        let at = |(service, queued): (&f64, &f64)| service * (1.0 + queued);
        let responses: Vec<f64> = mean_services.iter().zip(&queued).map(at).collect();
        response = responses.iter().sum();
        let rate = f64::from(n) / (response + think);
        queued = responses.iter().map(|response| rate * response).collect();
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-12, "{a} against {b}");
    }

    #[test]
    fn textbook_values() {
        // ρ = 0.8, mean service 1: 4 for M/M/1, half of it for M/D/1.
        near(pollaczek_khinchine(0.8, Moments::exponential(1.0)), 4.0);
        near(pollaczek_khinchine(0.8, Moments::constant(1.0)), 2.0);
        // One server is M/M/1; two at ρ = 0.5: C = 1/3, wait 1/3.
        near(erlang_wait(0.8, 1.0, 1), 4.0);
        near(erlang_wait(1.0, 1.0, 2), 1.0 / 3.0);
        near(processor_sharing(0.5, 1.0, 1.0), 2.0);
        near(processor_sharing(0.5, 1.0, 4.0), 8.0);
        // One user never waits; two who do not think queue behind each other.
        near(closed_response(1, 5.0, &[1.0]), 1.0);
        near(closed_response(2, 0.0, &[1.0]), 2.0);
        // Two balanced servers hold n users with response n + 1 (Lavenberg 1983).
        near(closed_response(3, 0.0, &[1.0, 1.0]), 4.0);
    }
}
