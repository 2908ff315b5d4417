//! What the runtime's log says of the model that it loaded: its file, precision and cores.

use super::super::row::Identity;
use super::whole::chips;

/// What the lines of a log say before its times, which hold until a model is loaded anew.
#[derive(Clone, Debug, Default)]
pub(super) struct Loaded(Identity);

/// What a line of the log states, and as what it is known.
const STATED: [(&str, &str); 6] = [
    ("rkllm-runtime version", "version"),
    ("rknpu driver version", "driver"),
    ("platform", "soc"),
    ("npu_core_num", "cores"),
    ("target_platform", "soc"),
    ("model_dtype", "quant"),
];

impl Loaded {
    /// Takes what a line says after `rkllm:`; whether it said anything.
    pub(super) fn says(&mut self, line: &str) -> bool {
        if let Some((_, path)) = line.split_once("loading rkllm model from ") {
            for key in ["cores", "quant"] {
                self.0.remove(key);
            }
            let file = path.trim().rsplit(['/', '\\']).next().unwrap_or("");
            let name = file.strip_suffix(".rkllm").unwrap_or(file);
            self.0.insert("model".to_owned(), name.to_owned());
            return true;
        }
        let mut any = false;
        if line.trim_start().starts_with("rkllm-runtime version") {
            // A process of its own: nothing of the one before holds.
            self.0.clear();
        }
        for part in line.split(',') {
            let Some((key, value)) = part.split_once(':') else {
                continue;
            };
            let value = value.trim();
            let known = STATED.iter().find(|(name, _)| *name == key.trim());
            let Some((name, known)) = known.filter(|_| !value.is_empty()) else {
                continue;
            };
            any = true;
            let chip = name.ends_with("platform");
            let value = match chips(value).into_iter().next() {
                Some(upper) if chip => upper,
                _ => value.to_owned(),
            };
            self.0.insert((*known).to_owned(), value);
        }
        any
    }

    /// Adds it to what the whole file says.
    pub(super) fn put_into(&self, identity: &mut Identity) {
        identity.extend(self.0.clone());
    }
}
