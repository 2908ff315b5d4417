//! A script's text, compiled and checked: which functions it has, and where its errors are.

use std::fmt;
use std::ops::Range;

use rhai::{AST, CallFnOptions, Dynamic, EvalAltResult, FuncArgs, Position, Scope};

use super::engine::{self, OPERATIONS_MAX};
use super::values::{Call, Params};
use crate::diag::Diagnostic;

/// A function that a script may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    /// A number for each lane.
    Score,
    /// The lane of a request.
    Decide,
    /// For how long the chosen lane will be busy.
    Busy,
    /// The order of ready requests.
    Rank,
    /// The lane of a frame.
    Ingest,
}

impl Function {
    const ALL: [Self; 5] = [
        Self::Score,
        Self::Decide,
        Self::Busy,
        Self::Rank,
        Self::Ingest,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Score => "score",
            Self::Decide => "decide",
            Self::Busy => "busy_ns",
            Self::Rank => "rank",
            Self::Ingest => "ingest",
        }
    }

    fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::Score | Self::Busy => &["request", "candidate", "view"],
            Self::Decide | Self::Ingest => &["request", "candidates", "view"],
            Self::Rank => &["request", "view"],
        }
    }
}

/// How a script chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// By [`Function::Score`].
    Score,
    /// By [`Function::Decide`].
    Decide,
}

/// A compiled script.
pub struct Program {
    name: String,
    text: String,
    ast: AST,
    choice: Choice,
    /// By [`Function`].
    has: [bool; Function::ALL.len()],
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Program {
    /// Compiles the script `text`, which is called `name`.
    ///
    /// # Errors
    ///
    /// The first fault of its syntax or form, with its place.
    pub fn new(name: &str, text: &str) -> Result<Self, Diagnostic> {
        let at = |position: Position| span(text, position);
        let ast = engine::engine().compile(text).map_err(|error| {
            let kind = error.err_type().to_string();
            Diagnostic::new(name, at(error.position()), kind, "here")
        })?;
        let mut program = Self {
            name: name.to_owned(),
            text: text.to_owned(),
            choice: Choice::Score,
            has: [false; Function::ALL.len()],
            ast,
        };
        program.nothing_outside()?;
        for function in Function::ALL {
            program.has[function as usize] = program.finds(function)?;
        }
        program.choice = match (program.has(Function::Score), program.has(Function::Decide)) {
            (true, false) => Choice::Score,
            (false, true) => Choice::Decide,
            (true, true) => {
                let both = "the script has both `score` and `decide`".to_owned();
                let fault = program.fault_of(Function::Decide, both);
                return Err(fault.help("one of them chooses the lane: take the other out"));
            }
            (false, false) => {
                let message = "the script has neither `score` nor `decide`";
                let fault = Diagnostic::new(name, 0..text.len().min(1), message, "in this file");
                return Err(fault.help(
                    "add `fn score(request, candidate, view) { candidate.wait_ns }` or the like",
                ));
            }
        };
        if program.choice == Choice::Decide && program.has(Function::Busy) {
            let message = "`busy_ns` goes with `score` only".to_owned();
            let fault = program.fault_of(Function::Busy, message);
            return Err(fault.help("let `decide` return `place(candidate, busy_ns)`"));
        }
        Ok(program)
    }

    /// The script's name: its path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn choice(&self) -> Choice {
        self.choice
    }

    pub(super) fn has(&self, function: Function) -> bool {
        self.has[function as usize]
    }

    /// Whether the text has a word: what it does not name it cannot ask for, since nothing is looked up by text.
    pub(crate) fn names(&self, word: &str) -> bool {
        self.words(word).next().is_some()
    }

    /// Where the text has a word.
    fn words<'p>(&'p self, word: &'p str) -> impl Iterator<Item = usize> + 'p {
        let part = |c: char| c.is_alphanumeric() || c == '_';
        let found = self.text.match_indices(word).map(|(at, _)| at);
        found.filter(move |at| {
            let before = self.text[..*at].chars().next_back();
            let after = self.text[at + word.len()..].chars().next();
            !before.is_some_and(part) && !after.is_some_and(part)
        })
    }

    /// Whether the script may ask for a parameter: its name stands in the text as a string, or a name that `param`
    /// is given is not written out.
    pub(crate) fn may_ask_for(&self, name: &str) -> bool {
        if self.text.contains(&format!("\"{name}\"")) {
            return true;
        }
        self.words("param").any(|at| {
            let after = self.text[at + "param".len()..].trim_start();
            let given = after.strip_prefix('(').map(str::trim_start);
            let literal = given
                .and_then(|given| given.strip_prefix('"'))
                .and_then(|given| given.split_once('"'));
            // With an escape, it may be spelt otherwise.
            literal.is_none_or(|(literal, _)| literal.contains('\\'))
        })
    }

    /// Functions see their parameters and `this` only, so what stands outside of them would do nothing.
    fn nothing_outside(&self) -> Result<(), Diagnostic> {
        let mut scope = Scope::new();
        let value = engine::engine()
            .eval_ast_with_scope::<Dynamic>(&mut scope, &self.ast.clone_statements_only())
            .map_err(|error| self.fault(&error, None, Position::NONE))?;
        let name = scope.iter_raw().next().map(|(name, ..)| name.to_owned());
        match name {
            Some(name) => {
                let at = self.text.find(&name).unwrap_or_default();
                let end = (at + name.len()).min(self.text.len());
                let message =
                    format!("`{name}` stands outside of the functions, which cannot see it");
                let fault =
                    Diagnostic::new(&self.name, at..end, message, "not seen by any function");
                Err(fault.help(format!(
                    "write `fn {name}() {{ … }}`, or let the scenario give it: `param(\"{name}\")`"
                )))
            }
            None if !value.is_unit() => Err(Diagnostic::new(
                &self.name,
                0..self.text.len().min(1),
                "the script has statements outside of its functions",
                "in this file",
            )
            .help("only functions are called: move them into one")),
            None => Ok(()),
        }
    }

    /// Whether the script has a function, with the right number of parameters.
    fn finds(&self, function: Function) -> Result<bool, Diagnostic> {
        let (name, wanted) = (function.name(), function.parameters());
        let mut found = self.ast.iter_functions().filter(|f| f.name == name);
        let Some(first) = found.next() else {
            return Ok(false);
        };
        let mut all = std::iter::once(first).chain(found);
        if let Some(other) = all.find(|f| f.params.len() != wanted.len()) {
            let message = format!(
                "`{name}` has {} parameters, and is called with {}",
                other.params.len(),
                wanted.len()
            );
            return Err(self
                .fault_of(function, message)
                .help(format!("write `fn {name}({})`", wanted.join(", "))));
        }
        Ok(true)
    }

    /// Calls a function; `state` is its `this`.
    pub(super) fn call(
        &self,
        function: Function,
        state: &mut Dynamic,
        params: Params,
        arguments: impl FuncArgs,
    ) -> Result<Dynamic, Diagnostic> {
        let mut given = Vec::new();
        arguments.parse(&mut given);
        let before = state.clone();
        let call = Call::new(params);
        let result = self.run(function, state, call.clone(), given.clone());
        result.map_err(|error| {
            let place = match *error {
                // Of these the interpreter forgets where they were, at each return from a function.
                EvalAltResult::ErrorDataTooLarge(..) | EvalAltResult::ErrorStackOverflow(_) => {
                    self.where_it_ends(function, before, call.again(), given)
                }
                _ => Position::NONE,
            };
            self.fault(&error, Some(function), place)
        })
    }

    fn run(
        &self,
        function: Function,
        state: &mut Dynamic,
        call: Call,
        arguments: Vec<Dynamic>,
    ) -> Result<Dynamic, Box<EvalAltResult>> {
        let options = CallFnOptions::new()
            .eval_ast(false)
            .bind_this_ptr(state)
            .with_tag(call);
        let value = engine::engine().call_fn_with_options::<Dynamic>(
            options,
            &mut Scope::new(),
            &self.ast,
            function.name(),
            arguments,
        )?;
        engine::small(state)?;
        Ok(value)
    }

    /// Where a call reads its last variable: it is made once more, and ended there with an error that keeps its
    /// place.
    fn where_it_ends(
        &self,
        function: Function,
        mut state: Dynamic,
        call: Call,
        arguments: Vec<Dynamic>,
    ) -> Position {
        match self.run(function, &mut state, call, arguments) {
            Err(error) => error.unwrap_inner().position(),
            Ok(_) => Position::NONE,
        }
    }

    /// A fault of a whole function.
    pub(super) fn fault_of(&self, function: Function, message: String) -> Diagnostic {
        Diagnostic::new(&self.name, self.place_of(function.name()), message, "here")
    }

    /// Where a function is defined: its name.
    fn place_of(&self, name: &str) -> Range<usize> {
        let defined = self.text.match_indices(name).find(|(at, _)| {
            let before = self.text[..*at].trim_end();
            let after = self.text[at + name.len()..].trim_start();
            before.len() < *at && before.ends_with("fn") && after.starts_with('(')
        });
        let at = defined.map_or(0, |(at, _)| at);
        at..(at + name.len()).min(self.text.len())
    }

    /// Where the script has loops, in order: the interpreter forgets at which of them a call ran out of steps.
    fn loops(&self) -> Vec<Range<usize>> {
        let keywords = ["loop", "while", "for", "do"].into_iter();
        let found = keywords.flat_map(|word| self.words(word).map(|at| at..at + word.len()));
        let line = |at: usize| self.text[..at].rsplit('\n').next().unwrap_or_default();
        let mut found: Vec<_> = found
            .filter(|range| !line(range.start).contains("//"))
            .collect();
        found.sort_unstable_by_key(|range| range.start);
        // `do { … } while` is one loop.
        let dos = found.iter().filter(|range| range.len() == 2).count();
        let whiles = found.iter().filter(|range| range.len() == 5).count();
        if dos > 0 && dos == whiles {
            found.retain(|range| range.len() != 5);
        }
        found
    }

    /// A call that took too many steps: at the script's loop, if it has one, else with the lines of all.
    fn too_many_steps(&self, fault: Diagnostic) -> Diagnostic {
        let loops = self.loops();
        if let [only] = loops.as_slice() {
            return Diagnostic {
                span: only.clone(),
                ..fault
            };
        }
        let line = |range: &Range<usize>| self.text[..range.start].matches('\n').count() + 1;
        let mut lines: Vec<String> = loops.iter().map(|range| line(range).to_string()).collect();
        lines.dedup();
        match lines.as_slice() {
            [] => fault.help("it has no loop: look for functions that call each other too often"),
            lines => fault.help(format!(
                "a call may take {OPERATIONS_MAX} of them: look for a loop that does not end in line{} {}",
                if lines.len() == 1 { "" } else { "s" },
                lines.join(", ")
            )),
        }
    }

    /// An error with its place: its own, or `found`; what has none is of the function that was called.
    fn fault(
        &self,
        error: &EvalAltResult,
        called: Option<Function>,
        found: Position,
    ) -> Diagnostic {
        let inner = error.unwrap_inner();
        let position = [found, inner.position(), error.position()]
            .into_iter()
            .find(|position| !position.is_none())
            .unwrap_or(Position::NONE);
        let (message, help) = told(inner);
        let place = match called {
            Some(function) if position.is_none() => self.place_of(function.name()),
            _ => span(&self.text, position),
        };
        let fault = Diagnostic::new(&self.name, place, message, "here");
        let fault = match help {
            Some(help) => fault.help(help),
            None => fault,
        };
        match inner {
            EvalAltResult::ErrorTooManyOperations(_) => self.too_many_steps(fault),
            _ => fault,
        }
    }
}

/// An error in words, without its place.
fn told(error: &EvalAltResult) -> (String, Option<String>) {
    match error {
        EvalAltResult::ErrorRuntime(value, _) => (value.to_string(), None),
        EvalAltResult::ErrorTooManyOperations(_) => (
            "the script takes too many steps".to_owned(),
            Some(format!(
                "a call may take {OPERATIONS_MAX} of them: look for a loop that does not end"
            )),
        ),
        EvalAltResult::ErrorStackOverflow(_) => (
            "the script's functions call each other too deeply".to_owned(),
            Some(format!(
                "{} calls may be within each other",
                engine::CALLS_MAX
            )),
        ),
        EvalAltResult::ErrorDataTooLarge(what, _) => (
            format!("the script's data grow too large: {what}"),
            Some(format!(
                "texts may have {} bytes, lists and maps {} entries",
                engine::TEXT_MAX,
                engine::LIST_MAX
            )),
        ),
        EvalAltResult::ErrorDotExpr(message, _) => (
            message.clone(),
            Some("docs/policies.md lists what each value has".to_owned()),
        ),
        EvalAltResult::ErrorFunctionNotFound(signature, _) => {
            (format!("there is no function `{signature}`"), None)
        }
        other => {
            let text = other.to_string();
            // The place is told apart from the message.
            let end = text.rfind(" (line ").unwrap_or(text.len());
            (text[..end].to_owned(), None)
        }
    }
}

/// The bytes of the word at a place.
fn span(text: &str, position: Position) -> Range<usize> {
    let Some(line) = position.line() else {
        return 0..text.len().min(1);
    };
    let start: usize = text
        .split_inclusive('\n')
        .take(line - 1)
        .map(str::len)
        .sum();
    let column = position.position().unwrap_or(1).saturating_sub(1);
    let rest = &text[start.min(text.len())..];
    let at = start
        + rest
            .char_indices()
            .nth(column)
            .map_or(rest.trim_end_matches('\n').len(), |(at, _)| at);
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let word: usize = text[at..]
        .chars()
        .take_while(|&c| part(c))
        .map(char::len_utf8)
        .sum();
    let first = text[at..].chars().next().filter(|&c| c != '\n');
    at..at + word.max(first.map_or(0, char::len_utf8))
}
