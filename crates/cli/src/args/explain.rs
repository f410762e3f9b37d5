//! Arguments of `explain`.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{Error, ErrorKind};
use clap::{Arg, Args, Command};
use nodeward_model::{Escape as _, Pid, SkipReason};
use nodeward_policy::placement;
use nodeward_scenario::did_you_mean;

use super::agent::AgentArgs;
use super::machine::SimulatedArgs;
use super::output::OutputArgs;

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Reasons, as nodeward names them, or processes for which to explain the balancer's decision;
    /// all reasons if none is given
    #[arg(value_name = "REASON|PID", value_parser = SubjectParser, hide_possible_values = true)]
    pub subjects: Vec<ExplainSubject>,
    /// How to print them.
    #[command(flatten)]
    pub output: OutputArgs,
    /// The agent.
    #[command(flatten)]
    pub by: AgentArgs,
    /// The simulated machine.
    #[command(flatten)]
    pub simulated: SimulatedArgs,
}

/// A subject to explain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExplainSubject {
    /// A reason why pages stayed.
    Skip(SkipReason),
    /// A reason of a process's home.
    Home(placement::Reason),
    /// A process: the balancer's decision about it.
    Process(Pid),
}

/// Parses subjects, and offers the names of reasons to shell completion.
#[derive(Clone, Copy, Debug)]
struct SubjectParser;

impl TypedValueParser for SubjectParser {
    type Value = ExplainSubject;

    fn parse_ref(
        &self,
        command: &Command,
        _arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<ExplainSubject, Error> {
        // Unprintable text is escaped for all verbs.
        let text = value.to_str().map_or_else(|| value.escaped().to_string(), str::to_owned);
        parse_subject(&text).ok_or_else(|| {
            let meant = did_you_mean(&text, &names().collect::<Vec<_>>());
            let words = format!(
                "'{text}' is neither a process id nor a reason{meant}; nodeward explain without \
                 arguments lists all reasons\n"
            );
            Error::raw(ErrorKind::InvalidValue, words).with_cmd(command)
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(names().map(PossibleValue::new)))
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    let skipped = SkipReason::ALL.iter().map(|reason| reason.name());
    skipped.chain(placement::Reason::ALL.iter().map(|reason| reason.name()))
}

fn parse_subject(text: &str) -> Option<ExplainSubject> {
    if let Ok(pid) = text.parse() {
        return Some(ExplainSubject::Process(pid));
    }
    let skip = SkipReason::ALL.into_iter().find(|reason| reason.name() == text);
    let home = || placement::Reason::ALL.iter().copied().find(|reason| reason.name() == text);
    skip.map(ExplainSubject::Skip).or_else(|| home().map(ExplainSubject::Home))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Goal: a name means one reason, and no reason can be mistaken for a process.
    #[test]
    fn names_are_different() {
        let mut seen = BTreeSet::new();
        for name in names() {
            assert!(seen.insert(name), "{name} is there twice");
            assert!(
                !matches!(parse_subject(name), None | Some(ExplainSubject::Process(_))),
                "{name}"
            );
        }
    }

    #[test]
    fn numbers_are_processes() {
        assert_eq!(parse_subject("7"), Some(ExplainSubject::Process(Pid::new(7).unwrap())));
        assert_eq!(parse_subject("pinned"), Some(ExplainSubject::Skip(SkipReason::Pinned)));
        for word in ["", "0", "-1", "pin"] {
            assert_eq!(parse_subject(word), None, "{word}");
        }
    }
}
