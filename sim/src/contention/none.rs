//! No contention: every stage takes its time alone.
//!
//! For ablations, and for profiles whose stage times already hold what co-running costs.

use super::{ContentionModel, Load};

/// Slowdown 1, whatever runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoContention;

impl ContentionModel for NoContention {
    fn slowdowns(&self, running: &[Load], out: &mut [f64]) {
        assert_eq!(running.len(), out.len(), "one slowdown per load");
        out.fill(1.0);
    }

    fn name(&self) -> &'static str {
        "none"
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::contention::laws;

    proptest! {
        #![proptest_config(laws::config())]

        #[test]
        fn laws_hold(case in laws::case(4)) {
            laws::check(&NoContention, &case)?;
        }
    }
}
