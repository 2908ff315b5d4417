//! Vision transformers in CLIP's form, as ONNX graphs.

use std::collections::BTreeMap;

use super::proto::{Attribute, DataType, Graph, Model, Node, OperatorSet, Tensor, ValueInfo};
use super::{fill, generator};

/// What tells one tower from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Rows and columns of the image.
    side: i64,
    patch: i64,
    width: i64,
    layers: u32,
    heads: i64,
    hidden: i64,
}

/// openai/clip-vit-base-patch32, config.json.
pub(super) const CLIP_B32: Shape = Shape {
    side: 224,
    patch: 32,
    width: 768,
    layers: 12,
    heads: 12,
    hidden: 3072,
};

/// timm's `vit_small_patch16_224`, in CLIP's form.
pub(super) const VIT_S16: Shape = Shape {
    side: 224,
    patch: 16,
    width: 384,
    layers: 12,
    heads: 6,
    hidden: 1536,
};

pub(super) const TINY: Shape = Shape {
    side: 64,
    patch: 16,
    width: 96,
    layers: 2,
    heads: 3,
    hidden: 192,
};

/// Greatest magnitudes, for quantization: of a normalized image, of what layers add and attend with, and
/// of the stream that they add to. Weights are such that they are never reached.
const IMAGE: f32 = 4.0;
const LAYER: f32 = 8.0;
const STREAM: f32 = 32.0;
const BIAS: f32 = 0.02;

/// The encoded model.
pub(super) fn model(shape: &Shape, qdq: bool, seed: u64) -> Vec<u8> {
    let mut builder = Builder {
        qdq,
        seed,
        ..Builder::default()
    };
    let side = shape.side / shape.patch;
    let tokens = side * side + 1;
    let output = builder.tower(shape, side * side);
    let end = "last_hidden_state";
    // The last node's result gets the name.
    for node in &mut builder.nodes {
        for name in node.output.iter_mut().filter(|name| **name == output) {
            *name = end.into();
        }
    }
    let graph = Graph {
        node: builder.nodes,
        name: "vision tower of random weights".into(),
        initializer: builder.constants,
        input: vec![ValueInfo {
            name: INPUT.into(),
            dims: vec![1, 3, shape.side, shape.side],
        }],
        output: vec![ValueInfo {
            name: end.into(),
            dims: vec![1, tokens, shape.width],
        }],
    };
    // 16-bit quantization came with operator set 21.
    let (ir_version, version) = if qdq { (10, 21) } else { (8, 17) };
    Model {
        ir_version,
        producer_name: "crossinfer".into(),
        graph,
        opset_import: OperatorSet {
            domain: String::new(),
            version,
        },
    }
    .encode()
}

const INPUT: &str = "pixel_values";

/// Least and greatest number that a quantized tensor can hold.
type Range = (f32, f32);

fn within(magnitude: f32) -> Range {
    (-magnitude, magnitude)
}

fn step((low, high): Range) -> f32 {
    (high - low) / f32::from(u16::MAX)
}

/// A graph in the making. In QDQ form every result is quantized and dequantized, as runtimes expect.
#[derive(Debug, Default)]
struct Builder {
    qdq: bool,
    seed: u64,
    nodes: Vec<Node>,
    constants: Vec<Tensor>,
    /// Of dequantized results.
    ranges: BTreeMap<String, Range>,
    /// Of dequantized weights.
    steps: BTreeMap<String, f32>,
    made: usize,
    /// Tensors of random numbers; counted apart, so that both forms have the same.
    drawn: usize,
}

impl Builder {
    fn name(&mut self, what: &str) -> String {
        self.made += 1;
        format!("{what}_{}", self.made)
    }

    fn node(&mut self, op: &str, input: &[&str], attribute: Vec<Attribute>) -> String {
        let name = self.name(op);
        self.nodes.push(Node {
            input: input.iter().map(|&text| text.into()).collect(),
            output: vec![name.clone()],
            name: name.clone(),
            op_type: op.into(),
            attribute,
        });
        name
    }

    /// A node whose result lies in a range; `None`: that of its first input.
    fn op(
        &mut self,
        op: &str,
        input: &[&str],
        attribute: Vec<Attribute>,
        range: Option<Range>,
    ) -> String {
        let range = range.or_else(|| self.ranges.get(input[0]).copied());
        let name = self.node(op, input, attribute);
        match range {
            Some(range) if self.qdq => self.requantized(&name, range),
            _ => name,
        }
    }

    fn requantized(&mut self, name: &str, range: Range) -> String {
        let (scale, zero) = self.parameters(range);
        let quantized = self.node("QuantizeLinear", &[name, &scale, &zero], vec![]);
        let name = self.node("DequantizeLinear", &[&quantized, &scale, &zero], vec![]);
        self.ranges.insert(name.clone(), range);
        name
    }

    fn parameters(&mut self, range: Range) -> (String, String) {
        let scale = self.constant(
            "scale",
            &[],
            DataType::Float,
            step(range).to_le_bytes().into(),
        );
        let zero = (-range.0 / step(range)).round() as u16;
        let zero = self.constant("zero", &[], DataType::Uint16, zero.to_le_bytes().into());
        (scale, zero)
    }

    fn constant(&mut self, what: &str, dims: &[i64], kind: DataType, raw_data: Vec<u8>) -> String {
        let name = self.name(what);
        self.constants.push(Tensor {
            dims: dims.into(),
            data_type: kind as i64,
            name: name.clone(),
            raw_data,
        });
        name
    }

    fn floats(&mut self, what: &str, dims: &[i64], numbers: &[f32]) -> String {
        let bytes = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.constant(what, dims, DataType::Float, bytes)
    }

    fn shape(&mut self, dims: &[i64]) -> String {
        let bytes = dims.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.constant(
            "shape",
            &[dims.len().cast_signed() as i64],
            DataType::Int64,
            bytes,
        )
    }

    fn random(&mut self, dims: &[i64], deviation: f32) -> Vec<f32> {
        let count: i64 = dims.iter().product();
        let mut numbers = vec![0.0; count as usize];
        self.drawn += 1;
        fill(
            &mut generator(self.seed, self.drawn),
            deviation,
            &mut numbers,
        );
        numbers
    }

    /// Weights; in QDQ form of 8 bits about 128.
    fn weight(&mut self, dims: &[i64], deviation: f32) -> String {
        let numbers = self.random(dims, deviation);
        if !self.qdq {
            return self.floats("weight", dims, &numbers);
        }
        let step = deviation * 3_f32.sqrt() / 127.0;
        let bytes = numbers.iter().map(|x| (x / step + 128.0).round() as u8);
        let bytes = bytes.collect();
        self.bytes("weight", dims, bytes, step, 128)
    }

    fn bytes(&mut self, what: &str, dims: &[i64], bytes: Vec<u8>, step: f32, zero: u8) -> String {
        let whole = self.constant(what, dims, DataType::Uint8, bytes);
        let scale = self.floats("scale", &[], &[step]);
        let zero = self.constant("zero", &[], DataType::Uint8, vec![zero]);
        let name = self.node("DequantizeLinear", &[&whole, &scale, &zero], vec![]);
        self.steps.insert(name.clone(), step);
        name
    }

    /// Numbers that are added, of 16 bits in QDQ form.
    fn addend(&mut self, dims: &[i64], deviation: f32, range: Range) -> String {
        let numbers = self.random(dims, deviation);
        self.quantizable(dims, &numbers, range)
    }

    fn quantizable(&mut self, dims: &[i64], numbers: &[f32], range: Range) -> String {
        if !self.qdq {
            return self.floats("addend", dims, numbers);
        }
        let bytes = numbers.iter().flat_map(|x| {
            let steps = ((x - range.0) / step(range)).round();
            (steps as u16).to_le_bytes()
        });
        let bytes = bytes.collect();
        let whole = self.constant("addend", dims, DataType::Uint16, bytes);
        let (scale, zero) = self.parameters(range);
        self.node("DequantizeLinear", &[&whole, &scale, &zero], vec![])
    }

    /// A bias of an operator that has one: in QDQ form of 32 bits in steps of input times weight.
    fn bias(&mut self, count: i64, deviation: f32, input: &str, weight: &str) -> String {
        let numbers = self.random(&[count], deviation);
        let steps = (self.ranges.get(input), self.steps.get(weight));
        let (Some(&range), Some(&weight)) = steps else {
            return self.floats("bias", &[count], &numbers);
        };
        let step = step(range) * weight;
        let bytes = numbers
            .iter()
            .flat_map(|x| ((x / step).round() as i32).to_le_bytes());
        let bytes = bytes.collect();
        let whole = self.constant("bias", &[count], DataType::Int32, bytes);
        let scale = self.floats("scale", &[], &[step]);
        let zero = self.constant("zero", &[], DataType::Int32, vec![0; 4]);
        self.node("DequantizeLinear", &[&whole, &scale, &zero], vec![])
    }

    fn norm(&mut self, input: &str, width: i64) -> String {
        let one = if self.qdq {
            self.bytes("gain", &[width], vec![128; width as usize], 1.0 / 128.0, 0)
        } else {
            self.floats("gain", &[width], &vec![1.0; width as usize])
        };
        let bias = self.bias(width, 0.0, input, &one);
        let attributes = vec![
            Attribute::int("axis", -1),
            Attribute::float("epsilon", 1e-5),
        ];
        let range = Some(within(LAYER));
        self.op(
            "LayerNormalization",
            &[input, &one, &bias],
            attributes,
            range,
        )
    }

    fn linear(&mut self, input: &str, from: i64, to: i64) -> String {
        let weight = self.weight(&[from, to], 1.0 / (from as f32).sqrt());
        let range = Some(within(LAYER));
        let product = self.op("MatMul", &[input, &weight], vec![], range);
        let bias = self.addend(&[to], BIAS, within(LAYER));
        self.op("Add", &[&product, &bias], vec![], range)
    }

    fn tower(&mut self, shape: &Shape, patches: i64) -> String {
        let Shape { patch, width, .. } = *shape;
        let stream = Some(within(STREAM));
        let image = if self.qdq {
            self.requantized(INPUT, within(IMAGE))
        } else {
            INPUT.into()
        };
        let pixels = 3 * patch * patch;
        let weight = self.weight(&[width, 3, patch, patch], 1.0 / (pixels as f32).sqrt());
        let bias = self.bias(width, BIAS, &image, &weight);
        let attributes = vec![
            Attribute::ints("kernel_shape", &[patch, patch]),
            Attribute::ints("strides", &[patch, patch]),
        ];
        let x = self.op("Conv", &[&image, &weight, &bias], attributes, stream);
        let flat = self.shape(&[1, width, patches]);
        let x = self.op("Reshape", &[&x, &flat], vec![], None);
        let swap = vec![Attribute::ints("perm", &[0, 2, 1])];
        let x = self.op("Transpose", &[&x], swap, None);
        let class = self.addend(&[1, 1, width], 1.0, within(STREAM));
        let axis = vec![Attribute::int("axis", 1)];
        let x = self.op("Concat", &[&class, &x], axis, stream);
        let tokens = patches + 1;
        let place = self.addend(&[1, tokens, width], BIAS, within(STREAM));
        let x = self.op("Add", &[&x, &place], vec![], stream);
        let mut x = self.norm(&x, width);
        for _ in 0..shape.layers {
            let y = self.norm(&x, width);
            let y = self.attention(&y, shape, tokens);
            x = self.op("Add", &[&x, &y], vec![], stream);
            let y = self.norm(&x, width);
            let y = self.perceptron(&y, shape);
            x = self.op("Add", &[&x, &y], vec![], stream);
        }
        self.norm(&x, width)
    }

    fn attention(&mut self, input: &str, shape: &Shape, tokens: i64) -> String {
        let Shape { width, heads, .. } = *shape;
        let head = width / heads;
        let split = self.shape(&[1, tokens, heads, head]);
        let mut part = |perm: &[i64]| {
            let x = self.linear(input, width, width);
            let x = self.op("Reshape", &[&x, &split], vec![], None);
            self.op(
                "Transpose",
                &[&x],
                vec![Attribute::ints("perm", perm)],
                None,
            )
        };
        let (query, key, value) = (
            part(&[0, 2, 1, 3]),
            part(&[0, 2, 3, 1]),
            part(&[0, 2, 1, 3]),
        );
        let layer = Some(within(LAYER));
        let scale = 1.0 / (head as f32).sqrt();
        let scale = self.quantizable(&[], &[scale], (0.0, scale));
        let query = self.op("Mul", &[&query, &scale], vec![], layer);
        let scores = self.op("MatMul", &[&query, &key], vec![], Some(within(2.0 * LAYER)));
        let axis = vec![Attribute::int("axis", -1)];
        let shares = self.op("Softmax", &[&scores], axis, Some((0.0, 1.0)));
        let x = self.op("MatMul", &[&shares, &value], vec![], layer);
        let order = vec![Attribute::ints("perm", &[0, 2, 1, 3])];
        let x = self.op("Transpose", &[&x], order, None);
        let merge = self.shape(&[1, tokens, width]);
        let x = self.op("Reshape", &[&x, &merge], vec![], None);
        self.linear(&x, width, width)
    }

    /// With CLIP's approximation of GELU, x σ(1.702 x).
    fn perceptron(&mut self, input: &str, shape: &Shape) -> String {
        let x = self.linear(input, shape.width, shape.hidden);
        let steep = self.quantizable(&[], &[1.702], (0.0, 1.702));
        let gate = self.op("Mul", &[&x, &steep], vec![], Some(within(2.0 * LAYER)));
        let gate = self.op("Sigmoid", &[&gate], vec![], Some((0.0, 1.0)));
        let x = self.op("Mul", &[&x, &gate], vec![], Some(within(LAYER)));
        self.linear(&x, shape.hidden, shape.width)
    }
}
