//! Manual pages and shell completions. Both come from the command line's own definition, so they
//! cannot disagree with it.

use std::io;
use std::path::Path;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use nodeward_files::{Visibility, create, make_directory};
use nodeward_model::Escape as _;

use crate::args::Cli;
use crate::message::exit::Exit;
use crate::output::print;

/// Writes one page for the command and one for each verb: nodeward.1, nodeward-move.1 and so on.
pub fn pages(directory: &Path) -> Result<Exit> {
    let cannot = || format!("cannot write manual pages to {}", directory.escaped());
    make_directory(directory, Visibility::Everyone).with_context(cannot)?;
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    page(&command, directory).with_context(cannot)?;
    Ok(Exit::Done)
}

/// Writes the page of a command and those of its verbs.
fn page(command: &Command, directory: &Path) -> io::Result<()> {
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    verbs.into_iter().try_for_each(|verb| page(verb, directory))?;
    let page = Man::new(command.clone());
    let mut file = create(&directory.join(page.get_filename()), Visibility::Everyone)?;
    page.render(&mut file)
}

/// Prints the completions for a shell.
pub fn completions(shell: Shell) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "nodeward", &mut script);
    print(&String::from_utf8(script)?)?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every verb that --help shows has its page, and no page is empty.
    #[test]
    fn every_verb_has_a_page() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(pages(directory.path()).unwrap(), Exit::Done);
        let command = Cli::command();
        let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let names = verbs.map(|verb| format!("nodeward-{}.1", verb.get_name()));
        for name in names.chain(["nodeward.1".to_owned()]) {
            let page = std::fs::read_to_string(directory.path().join(&name)).unwrap();
            assert!(page.contains(".SH NAME"), "{name}: {page}");
        }
    }

    /// Goal: a place where nothing can be written is named in the error.
    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let error = pages(Path::new("/proc/no/such/place")).unwrap_err();
        assert!(error.to_string().contains("/proc/no/such/place"), "{error}");
    }
}
