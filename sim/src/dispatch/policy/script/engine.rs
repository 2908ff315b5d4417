//! The interpreter: what a script may use, and how much of it.

use std::sync::OnceLock;

use rhai::packages::{
    ArithmeticPackage, BasicArrayPackage, BasicFnPackage, BasicIteratorPackage, BasicMapPackage,
    BasicStringPackage, LanguageCorePackage, LogicPackage, MoreStringPackage, Package,
};
use rhai::{
    Array, Dynamic, Engine, EvalAltResult, EvalContext, ImmutableString, Map, OptimizationLevel,
    Position,
};

use super::values::Call;
use super::{alike, values};

/// Steps that one call of a function may take. A step may compare or copy a whole list or text, so their sizes bound
/// what it takes: see `docs/policies.md` for the longest call that was found.
pub(super) const OPERATIONS_MAX: u64 = 100_000;
/// Calls within each other: a thread's stack of 2 MiB holds them in every build.
pub(super) const CALLS_MAX: usize = 32;
/// Depth of an expression.
const DEPTH_MAX: usize = 64;
/// Bytes of a text, or of all texts and keys within a list or a map.
pub(super) const TEXT_MAX: usize = 1024;
/// Entries of a list or a map, those of lists within it included.
pub(super) const LIST_MAX: usize = 500;
/// Variables of a call.
const VARIABLES_MAX: usize = 100;
/// Functions of a script.
const FUNCTIONS_MAX: usize = 1000;

/// What would reach beyond the script, make bits depend on the platform (`**` on floating point), or make values of
/// functions. What a function holds (`curry`) counts in no size, and what it does when a list calls it
/// counts in no step; a function that is found by a text (`Fn`) could ask for what the script does not name.
const OUT_OF_REACH: [&str; 7] = ["eval", "print", "debug", "**", "**=", "Fn", "curry"];

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
            .set_max_variables(VARIABLES_MAX)
            .set_max_functions(FUNCTIONS_MAX)
            .set_allow_anonymous_fn(false)
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
        pads(&mut engine);
        alike::register(&mut engine);
        values::register(&mut engine);
        whenever_read(&mut engine);
        engine
    })
}

/// Looks at every variable, and at `this`, whenever a variable is read: the interpreter looks at what an index
/// assigns (`map[key] = value`) and not at what it is assigned to, so maps would grow without end.
#[expect(deprecated, reason = "marked so for being unstable, as its text says")]
fn whenever_read(engine: &mut Engine) {
    engine.on_var(|name, _, context| {
        if let Some(call) = Call::of(context.tag()) {
            call.read()?;
        }
        within(&context, name)?;
        Ok(None)
    });
}

fn within(
    context: &EvalContext<'_, '_, '_, '_, '_, '_>,
    name: &str,
) -> Result<(), Box<EvalAltResult>> {
    if let Some(value) = context.scope().get(name) {
        small(value)?;
    }
    context.this_ptr().map_or(Ok(()), small)
}

/// That a value is within the limits, the keys of its maps too, which the interpreter does not count.
pub(super) fn small(value: &Dynamic) -> Result<(), Box<EvalAltResult>> {
    let mut left = Left {
        entries: LIST_MAX,
        bytes: TEXT_MAX,
    };
    left.take(value).ok_or_else(|| too_large().into())
}

/// The package's `pad` of a list multiplies without a look at how large that gets, and that of a text never ends where
/// there is nothing to pad with.
fn pads(engine: &mut Engine) {
    engine.register_fn("pad", |list: &mut Array, to: i64, item: Dynamic| {
        let to = usize::try_from(to).unwrap_or(0);
        let more = to.saturating_sub(list.len());
        let mut left = Left {
            entries: LIST_MAX,
            bytes: TEXT_MAX,
        };
        let mut fits = || {
            left.entries = left.entries.checked_sub(to.max(list.len()))?;
            list.iter().try_for_each(|entry| left.take(entry))?;
            (0..more).try_for_each(|_| left.take(&item))
        };
        if more > 0 {
            fits().ok_or_else(too_large)?;
            list.resize(to, item);
        }
        Ok::<_, Box<EvalAltResult>>(())
    });
    engine.register_fn(
        "pad",
        |text: &mut ImmutableString, to: i64, with: ImmutableString| {
            let (to, has) = (usize::try_from(to).unwrap_or(0), text.chars().count());
            if to <= has {
                return Ok(());
            }
            if to > TEXT_MAX {
                return Err(Box::new(too_large()));
            }
            if with.is_empty() {
                let message = "a text is padded with an empty one, which makes it no longer";
                return Err(EvalAltResult::ErrorRuntime(message.into(), Position::NONE).into());
            }
            *text = text.chars().chain(with.chars().cycle()).take(to).collect();
            Ok(())
        },
    );
}

fn too_large() -> EvalAltResult {
    let what = "Size of list, map or the texts in it".to_owned();
    EvalAltResult::ErrorDataTooLarge(what, Position::NONE)
}

/// What a value may still have.
struct Left {
    entries: usize,
    bytes: usize,
}

impl Left {
    /// `None`: the value has more.
    fn take(&mut self, value: &Dynamic) -> Option<()> {
        if let Ok(list) = value.as_array_ref() {
            self.entries = self.entries.checked_sub(list.len())?;
            return list.iter().try_for_each(|entry| self.take(entry));
        }
        if let Ok(map) = value.as_map_ref() {
            self.entries = self.entries.checked_sub(map.len())?;
            return map.iter().try_for_each(|(key, entry)| {
                self.bytes = self.bytes.checked_sub(key.len())?;
                self.take(entry)
            });
        }
        if let Ok(text) = value.as_immutable_string_ref() {
            self.bytes = self.bytes.checked_sub(text.len())?;
        } else if let Ok(blob) = value.as_blob_ref() {
            self.entries = self.entries.checked_sub(blob.len())?;
        }
        Some(())
    }
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

/// What the guide calls a value's type.
pub(super) fn kind(name: &str) -> &str {
    engine().map_type_name(name)
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
