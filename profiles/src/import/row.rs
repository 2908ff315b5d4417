//! A measurement of a benchmark, whatever file it came from.

use std::collections::BTreeMap;
use std::fmt;

/// What must be equal for two measurements to be of the same thing: board, clock, runtime and its build,
/// model, quantisation, back end, threads, settings. A key that a file does not state is absent, and absent is
/// not equal to any value.
pub type Identity = BTreeMap<String, String>;

/// Key of an identity: the precision of the encoder, where it is not the language model's (`quant`).
pub(crate) const ENCODE_QUANT: &str = "encode_quant";
/// Key of an identity: cores of the engine that the encoder had.
pub(crate) const ENCODE_CORES: &str = "encode_cores";

/// Value of [`ENCODE_CORES`] where the cores of the language model are stated and the encoder's are not.
pub(crate) const NOT_STATED: &str = "not stated";

/// Where a measurement stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// What was timed.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// Prefill of `tokens` on a context of `depth` tokens.
    Prefill {
        /// Tokens of the prompt.
        tokens: u64,
        /// Tokens of context before it.
        depth: u64,
    },
    /// Generation of `tokens` one by one on a context of `depth` tokens.
    Decode {
        /// Tokens generated.
        tokens: u64,
        /// Tokens of context before the first.
        depth: u64,
    },
    /// A prefill and then a generation, timed together.
    Both {
        /// Tokens of the prompt.
        prompt: u64,
        /// Tokens generated after it.
        tokens: u64,
        /// Tokens of context before the prompt.
        depth: u64,
    },
    /// Vision tower on one frame; its size in pixels if that is stated.
    Encode {
        /// Width and height, pixels.
        pixels: Option<(u64, u64)>,
    },
    /// One inference of a whole network, of the name that the file gives it.
    Run(String),
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |f: &mut fmt::Formatter<'_>, depth: u64| match depth {
            0 => Ok(()),
            depth => write!(f, " @ d{depth}"),
        };
        match self {
            Self::Prefill { tokens, depth } => {
                write!(f, "pp{tokens}")?;
                at(f, *depth)
            }
            Self::Decode { tokens, depth } => {
                write!(f, "tg{tokens}")?;
                at(f, *depth)
            }
            Self::Both {
                prompt,
                tokens,
                depth,
            } => {
                write!(f, "pp{prompt}+tg{tokens}")?;
                at(f, *depth)
            }
            Self::Encode {
                pixels: Some((width, height)),
            } => write!(f, "encode {width}x{height}"),
            Self::Encode { pixels: None } => f.write_str("encode"),
            Self::Run(name) => f.write_str(name),
        }
    }
}

/// How repeats of a measurement lie.
#[derive(Clone, Debug, PartialEq)]
pub enum Spread {
    /// Not stated, or rounded away.
    Unknown,
    /// Standard deviation ÷ mean.
    Cv(f64),
    /// Every repeat in the order of time, s.
    Samples(Vec<f64>),
}

/// A measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What it is a measurement of, beside the test.
    pub identity: Identity,
    /// What was timed.
    pub test: Test,
    /// Mean time, s; finite and above 0.
    pub secs: f64,
    /// Spread of the time.
    pub spread: Spread,
    /// Time of the first run before anything was warm, s, where it is known apart.
    pub cold_s: Option<f64>,
    /// Whether the tokens and the context of the test are stated; if not, they stand for any.
    pub stated: bool,
    /// Bytes of the model's weights.
    pub weights_bytes: Option<f64>,
    /// Where it stands.
    pub place: Place,
    /// What stood there, short.
    pub shown: String,
    /// Table or document of the file that it belongs to: rows of one are of one session.
    pub block: u64,
}
