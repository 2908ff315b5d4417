//! The model file: sizes and stage graphs of a vision-language model.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantity::{BYTES_MAX, Origin, Quantity, TOKENS_MAX};

/// A model (`profiles/models/<model>.toml`).
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    /// Name for people, for example `LLaVA-OneVision 0.5B INT4`.
    pub name: String,
    /// Origin of every number that names none and has no nearer `origin`.
    pub origin: Option<String>,
    /// Bytes of one copy of the language model's weights.
    #[schemars(extend("exclusiveMinimum" = 0, "multipleOf" = 1, "maximum" = BYTES_MAX))]
    pub weights_bytes: Quantity,
    /// Bytes of the vision tower's and the projector's weights.
    #[schemars(extend("multipleOf" = 1, "maximum" = BYTES_MAX))]
    pub vision_weights_bytes: Option<Quantity>,
    /// KV bytes per token, all layers.
    #[schemars(extend("exclusiveMinimum" = 0, "multipleOf" = 1, "maximum" = BYTES_MAX))]
    pub kv_bytes_per_token: Quantity,
    /// Visual tokens that one frame adds to the context.
    #[schemars(extend("exclusiveMinimum" = 0, "multipleOf" = 1, "maximum" = TOKENS_MAX))]
    pub visual_tokens_per_frame: Quantity,
    /// Tokens of the system prompt that every context starts with.
    #[schemars(extend("multipleOf" = 1, "maximum" = TOKENS_MAX))]
    pub system_tokens: Option<Quantity>,
    /// Longest context, tokens.
    #[schemars(extend("exclusiveMinimum" = 0, "multipleOf" = 1, "maximum" = TOKENS_MAX))]
    pub max_context_tokens: Quantity,
    /// What a frame turns into; exactly one stage of kind `ingest`, which everything leads to.
    pub frame_stages: Vec<StageNode>,
    /// What a query turns into; exactly one `query_prefill` and one `decode`.
    pub query_stages: Vec<StageNode>,
    /// Where the numbers came from, by key.
    #[serde(default)]
    pub origins: BTreeMap<String, Origin>,
}

/// A node of a stage graph.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StageNode {
    /// Name; the cost file's rows are keyed by it.
    pub name: String,
    /// What it does, and so what its size is.
    pub kind: StageKind,
    /// Stages of the same graph that must end first.
    #[serde(default)]
    pub after: Vec<String>,
}

/// Kind of a stage.
#[derive(
    Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord, Hash,
)]
#[serde(rename_all = "snake_case")]
pub enum StageKind {
    /// Vision tower; size: one frame.
    Encode,
    /// Projector; size: the frame's visual tokens.
    Project,
    /// Prefill of a frame's visual tokens into the stream's context.
    Ingest,
    /// Prefill of a query's prompt tokens.
    QueryPrefill,
    /// Generation of the answer's tokens after the first.
    Decode,
    /// Copy of a context's KV out of an engine; size: bytes.
    Export,
    /// Copy of a context's KV into an engine; size: bytes.
    Import,
    /// Prefill of a context's prefix again; size: the missing tokens.
    Reconstruct,
    /// Any other stage; size: one frame or one query.
    Custom,
}
