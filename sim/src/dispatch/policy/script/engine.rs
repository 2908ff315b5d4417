//! The interpreter: what a script may use, and how much of it.

use std::sync::OnceLock;

use rhai::packages::{
    ArithmeticPackage, BasicArrayPackage, BasicFnPackage, BasicIteratorPackage, BasicMapPackage,
    BasicStringPackage, LanguageCorePackage, LogicPackage, MoreStringPackage, Package,
};
use rhai::{Dynamic, Engine, EvalAltResult, Map, OptimizationLevel, Position};

use super::values;

/// Steps that one call of a function may take. A step may compare or copy a whole list or text, so their sizes bound
/// what it takes.
pub(super) const OPERATIONS_MAX: u64 = 250_000;
/// Calls within each other: a thread's stack of 2 MiB holds them in every build.
pub(super) const CALLS_MAX: usize = 32;
/// Depth of an expression.
const DEPTH_MAX: usize = 64;
/// Bytes of a text.
pub(super) const TEXT_MAX: usize = 4096;
/// Entries of a list or a map, those of lists within it included.
pub(super) const LIST_MAX: usize = 1000;
/// Variables of a call, and functions of a script.
const NAMES_MAX: usize = 1000;

/// What would reach beyond the script, or make bits depend on the platform (`**` on floating point).
const OUT_OF_REACH: [&str; 5] = ["eval", "print", "debug", "**", "**="];

/// The one engine. It keeps nothing of a run.
pub(super) fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        // Functions are found by hash; fixed seeds make that the same in every build. Another user of the library
        // in this process may have fixed them already.
        _ = rhai::config::hashing::set_hashing_seed(Some([1, 2, 3, 4]));
        let mut engine = Engine::new_raw();
        engine
            .set_max_operations(OPERATIONS_MAX)
            .set_max_call_levels(CALLS_MAX)
            .set_max_expr_depths(DEPTH_MAX, DEPTH_MAX)
            .set_max_string_size(TEXT_MAX)
            .set_max_array_size(LIST_MAX)
            .set_max_map_size(LIST_MAX)
            .set_max_variables(NAMES_MAX)
            .set_max_functions(NAMES_MAX)
            .set_strict_variables(true)
            .set_optimization_level(OptimizationLevel::Simple);
        for symbol in OUT_OF_REACH {
            engine.disable_symbol(symbol);
        }
        LanguageCorePackage::new().register_into_engine(&mut engine);
        ArithmeticPackage::new().register_into_engine(&mut engine);
        LogicPackage::new().register_into_engine(&mut engine);
        BasicFnPackage::new().register_into_engine(&mut engine);
        BasicIteratorPackage::new().register_into_engine(&mut engine);
        BasicStringPackage::new().register_into_engine(&mut engine);
        MoreStringPackage::new().register_into_engine(&mut engine);
        BasicArrayPackage::new().register_into_engine(&mut engine);
        BasicMapPackage::new().register_into_engine(&mut engine);
        mathematics(&mut engine);
        out_of_reach(&mut engine);
        values::register(&mut engine);
        engine
    })
}

/// The core package has two functions that a policy must not: what is registered here goes before them.
fn out_of_reach(engine: &mut Engine) {
    fn refused<T>(name: &str) -> Result<T, Box<EvalAltResult>> {
        let message = format!("a policy cannot call `{name}`");
        Err(EvalAltResult::ErrorRuntime(message.into(), Position::NONE).into())
    }
    engine
        .register_fn("sleep", |_: i64| refused::<()>("sleep"))
        .register_fn("sleep", |_: f64| refused::<()>("sleep"))
        .register_fn("exit", || refused::<()>("exit"))
        .register_fn("exit", |_: Dynamic| refused::<()>("exit"));
}

/// `this` at the start of a run.
pub(super) fn empty() -> Dynamic {
    Dynamic::from(Map::new())
}

/// Functions of numbers from `libm`: their bits are the same everywhere.
fn mathematics(engine: &mut Engine) {
    engine
        .register_fn("sqrt", libm::sqrt)
        .register_fn("exp", libm::exp)
        .register_fn("ln", libm::log)
        .register_fn("log10", libm::log10)
        .register_fn("pow", libm::pow)
        .register_fn("pow", |base: f64, exponent: i64| {
            libm::pow(base, exponent as f64)
        })
        .register_fn("floor", libm::floor)
        .register_fn("ceil", libm::ceil)
        .register_fn("round", libm::round)
        .register_fn("is_nan", f64::is_nan)
        .register_fn("is_finite", f64::is_finite)
        .register_fn("to_float", |number: i64| number as f64)
        .register_fn("to_float", |number: f64| number)
        .register_fn("to_int", |number: i64| number)
        .register_fn("to_int", whole);
}

/// A number without its fraction.
fn whole(number: f64) -> Result<i64, Box<EvalAltResult>> {
    // 2⁶³ is the first number that does not fit.
    if number.abs() < 9_223_372_036_854_775_808.0 {
        return Ok(number as i64);
    }
    let message = format!("{number} is no whole number of 64 bits");
    Err(EvalAltResult::ErrorArithmetic(message, Position::NONE).into())
}
