//! The part of ONNX's protobuf messages that a vision tower needs (onnx.proto3, field numbers as there).

use prost::encoding::{self, WireType};

/// A message: its fields, in the order of their numbers.
trait Fields {
    fn write(&self, out: &mut Vec<u8>);
}

fn text(number: u32, value: &str, out: &mut Vec<u8>) {
    bytes(number, value.as_bytes(), out);
}

fn bytes(number: u32, value: &[u8], out: &mut Vec<u8>) {
    encoding::encode_key(number, WireType::LengthDelimited, out);
    encoding::encode_varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

fn int(number: u32, value: i64, out: &mut Vec<u8>) {
    encoding::int64::encode(number, &value, out);
}

fn message(number: u32, value: &impl Fields, out: &mut Vec<u8>) {
    let mut inner = Vec::new();
    value.write(&mut inner);
    bytes(number, &inner, out);
}

impl Model {
    /// The file.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }
}

/// `TensorProto.DataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i64)]
pub(super) enum DataType {
    Float = 1,
    Uint8 = 2,
    Uint16 = 4,
    Int32 = 6,
    Int64 = 7,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Model {
    pub(super) ir_version: i64,
    pub(super) producer_name: String,
    pub(super) graph: Graph,
    pub(super) opset_import: OperatorSet,
}

impl Fields for Model {
    fn write(&self, out: &mut Vec<u8>) {
        int(1, self.ir_version, out);
        text(2, &self.producer_name, out);
        message(7, &self.graph, out);
        message(8, &self.opset_import, out);
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OperatorSet {
    pub(super) domain: String,
    pub(super) version: i64,
}

impl Fields for OperatorSet {
    fn write(&self, out: &mut Vec<u8>) {
        text(1, &self.domain, out);
        int(2, self.version, out);
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Graph {
    pub(super) node: Vec<Node>,
    pub(super) name: String,
    pub(super) initializer: Vec<Tensor>,
    pub(super) input: Vec<ValueInfo>,
    pub(super) output: Vec<ValueInfo>,
}

impl Fields for Graph {
    fn write(&self, out: &mut Vec<u8>) {
        self.node.iter().for_each(|node| message(1, node, out));
        text(2, &self.name, out);
        self.initializer
            .iter()
            .for_each(|tensor| message(5, tensor, out));
        self.input.iter().for_each(|value| message(11, value, out));
        self.output.iter().for_each(|value| message(12, value, out));
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Node {
    pub(super) input: Vec<String>,
    pub(super) output: Vec<String>,
    pub(super) name: String,
    pub(super) op_type: String,
    pub(super) attribute: Vec<Attribute>,
}

impl Fields for Node {
    fn write(&self, out: &mut Vec<u8>) {
        self.input.iter().for_each(|name| text(1, name, out));
        self.output.iter().for_each(|name| text(2, name, out));
        text(3, &self.name, out);
        text(4, &self.op_type, out);
        self.attribute
            .iter()
            .for_each(|value| message(5, value, out));
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Attribute {
    pub(super) name: String,
    pub(super) f: Option<f32>,
    pub(super) i: Option<i64>,
    pub(super) ints: Vec<i64>,
    /// `AttributeType`.
    pub(super) kind: i64,
}

impl Fields for Attribute {
    fn write(&self, out: &mut Vec<u8>) {
        text(1, &self.name, out);
        if let Some(value) = self.f {
            encoding::float::encode(2, &value, out);
        }
        if let Some(value) = self.i {
            int(3, value, out);
        }
        self.ints.iter().for_each(|&value| int(8, value, out));
        int(20, self.kind, out);
    }
}

impl Attribute {
    pub(super) fn float(name: &str, value: f32) -> Self {
        Self {
            name: name.into(),
            f: Some(value),
            kind: 1,
            ..Self::default()
        }
    }

    pub(super) fn int(name: &str, value: i64) -> Self {
        Self {
            name: name.into(),
            i: Some(value),
            kind: 2,
            ..Self::default()
        }
    }

    pub(super) fn ints(name: &str, values: &[i64]) -> Self {
        Self {
            name: name.into(),
            ints: values.to_vec(),
            kind: 7,
            ..Self::default()
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tensor {
    pub(super) dims: Vec<i64>,
    pub(super) data_type: i64,
    pub(super) name: String,
    /// Little-endian.
    pub(super) raw_data: Vec<u8>,
}

impl Fields for Tensor {
    fn write(&self, out: &mut Vec<u8>) {
        self.dims.iter().for_each(|&dim| int(1, dim, out));
        int(2, self.data_type, out);
        text(8, &self.name, out);
        bytes(9, &self.raw_data, out);
    }
}

/// A tensor of floating-point numbers that goes in or comes out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ValueInfo {
    pub(super) name: String,
    pub(super) dims: Vec<i64>,
}

impl Fields for ValueInfo {
    fn write(&self, out: &mut Vec<u8>) {
        text(1, &self.name, out);
        message(2, &Type(&self.dims), out);
    }
}

/// `TypeProto`, its `Tensor`, that's `TensorShapeProto`, and its `Dimension`.
struct Type<'d>(&'d [i64]);
struct TensorType<'d>(&'d [i64]);
struct Shape<'d>(&'d [i64]);
struct Dimension(i64);

impl Fields for Type<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        message(1, &TensorType(self.0), out);
    }
}

impl Fields for TensorType<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        int(1, DataType::Float as i64, out);
        message(2, &Shape(self.0), out);
    }
}

impl Fields for Shape<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        self.0
            .iter()
            .for_each(|&dim| message(1, &Dimension(dim), out));
    }
}

impl Fields for Dimension {
    fn write(&self, out: &mut Vec<u8>) {
        int(1, self.0, out);
    }
}
