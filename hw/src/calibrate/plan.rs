//! Which sizes and depths are measured, and how often.

/// A plan of measurements.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// One walk through a context: it is deepened by frames of these tokens, one after the other.
    pub frames: Vec<u32>,
    /// At each depth, queries of these prompt and answer tokens (the first answer token is the prefill's).
    pub queries: Vec<(u32, u32)>,
    /// Frames encoded in a walk.
    pub encodes: u32,
    /// Whether reading memory is measured.
    pub streams: bool,
    /// Whether pairs of lanes are measured.
    pub pairs: bool,
    /// Prompt and answer tokens of a decode whose slowdown beside another lane is measured; a prefill is as
    /// long as the first frame.
    pub beside: (u32, u32),
    /// Walks at least.
    pub least: u32,
    /// Walks at most.
    pub most: u32,
    /// Relative half-width of the 95 % interval of the mean that is narrow enough.
    pub narrow: f64,
}

impl Plan {
    /// About two minutes for a 135M model on two cores.
    pub fn quick() -> Self {
        Self {
            frames: vec![49, 16, 98, 49, 147],
            queries: vec![(8, 9), (24, 17)],
            encodes: 3,
            streams: true,
            pairs: true,
            beside: (8, 32),
            least: 3,
            most: 5,
            narrow: 0.03,
        }
    }

    /// As long as it takes: deeper contexts, more sizes, more repeats.
    pub fn thorough() -> Self {
        Self {
            frames: vec![49, 16, 98, 49, 147, 196, 49, 256, 256, 512],
            queries: vec![(8, 9), (24, 17), (64, 33)],
            encodes: 5,
            streams: true,
            pairs: true,
            beside: (16, 64),
            least: 5,
            most: 20,
            narrow: 0.015,
        }
    }
}
