//! Old names of options. The options take them still.

use std::ffi::OsString;

use super::cli::Verb;
use crate::message::deprecated::report_deprecated;

/// Reports the old names among the words of a command line, each once.
pub fn report_old_options(verb: &Verb, words: impl IntoIterator<Item = OsString>) {
    let old_and_new = old_options(verb);
    for word in words {
        let found = old_and_new.iter().find(|(old, _)| is_option(&word, old));
        if let Some((old, new)) = found {
            report_deprecated(old, new);
        }
    }
}

/// Returns the old names of a verb's options, each with the name in use.
fn old_options(verb: &Verb) -> &'static [(&'static str, &'static str)] {
    match verb {
        Verb::Balance(_) => &[("--looking", "--cpu-budget")],
        _ => &[],
    }
}

/// Returns whether a word is an option, with or without its value.
fn is_option(word: &OsString, option: &str) -> bool {
    let rest = word.to_str().and_then(|word| word.strip_prefix(option));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::Cli;

    /// Goal: an old option is told from one that begins alike, and still sets the same value.
    #[test]
    fn old_options_are_taken() {
        let is = |word: &str| is_option(&word.into(), "--looking");
        assert_eq!(
            ["--looking", "--looking=1ms", "--looking-at", "1ms"].map(is),
            [true, true, false, false]
        );
        let layer = |option| {
            let cli = Cli::parse_from(["nodeward", "balance", option, "5ms"]);
            let Verb::Balance(args) = cli.verb else { panic!("it is balance") };
            args.layer
        };
        assert!(layer("--looking").cpu_budget.is_some());
        assert_eq!(layer("--looking"), layer("--cpu-budget"));
    }
}
