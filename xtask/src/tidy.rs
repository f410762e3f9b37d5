//! The repository's rules as a test. Each rule is one module that checks text and returns
//! violations. Files are read and cargo is called only here, so that rules are tested on small
//! strings.

mod book;
mod changelog;
mod circles;
mod code_location;
mod dependencies;
mod documents;
mod figures;
mod forbidden_words;
mod functions;
mod layers;
mod links;
mod markdown;
mod module_layers;
mod module_tree;
mod old_words;
mod paths;
mod repeated_names;
mod source;
mod unused_files;
mod violation;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::{self, Workspace};
use crate::{process, spec};
use markdown::Document;
use source::RustSource;
use violation::Violation;

/// Checks every rule, prints all violations and the figures.
pub fn run() -> Result<()> {
    let files = text_files()?;
    let sources: Vec<RustSource> = files.iter().filter_map(RustSource::of).collect();
    let mut violations: Vec<Violation> = sources.iter().flat_map(check_source).collect();
    violations
        .extend(files.iter().flat_map(|(path, text)| forbidden_words::check_text(path, text)));
    violations.extend(check_workspace(&Workspace::load()?, &files));
    violations.extend(check_documents(&files));
    violations.extend(repeated_names::check(&sources));
    violations.extend(unused_files::check(&sources));
    violations.extend(circles::check(&sources));
    violations.extend(module_layers::check(&sources));
    for violation in &violations {
        eprintln!("{violation}");
    }
    eprint!("{}", figures::Figures::of(&sources));
    match violations.len() {
        0 => Ok(()),
        1 => bail!("1 place breaks a rule of the house; see above"),
        count => bail!("{count} places break a rule of the house; see above"),
    }
}

fn check_source(source: &RustSource) -> Vec<Violation> {
    let rules = [
        source::check,
        functions::check,
        forbidden_words::check_source,
        code_location::check,
        old_words::check,
    ];
    rules.iter().flat_map(|rule| rule(source)).collect()
}

fn check_workspace(workspace: &Workspace, files: &[(PathBuf, String)]) -> Vec<Violation> {
    let text = |name: &str| files.iter().find(|(p, _)| p == Path::new(name)).map(|(_, t)| &**t);
    let mut violations = dependencies::check(workspace);
    let dirs: Vec<&Path> = workspace.packages.iter().map(|package| package.dir()).collect();
    violations.extend(documents::check_map(text("ARCHITECTURE.md"), &dirs));
    violations.extend(documents::check_readme(text("README.md")));
    violations.extend(changelog::check(text("CHANGELOG.md")));
    violations.extend(check_spec(text("SPEC.md")));
    violations
}

fn check_documents(files: &[(PathBuf, String)]) -> Vec<Violation> {
    let ours = || files.iter().filter(|(path, _)| documents::is_document(path));
    let parsed: Vec<Document<'_>> = ours().map(|(path, text)| Document::new(path, text)).collect();
    let known: BTreeSet<&Path> = files.iter().map(|(path, _)| path.as_path()).collect();
    let mut violations = links::check(&parsed, &known);
    violations.extend(book::check(&parsed));
    violations.extend(ours().filter_map(|(path, text)| documents::check_size(path, text)));
    violations.extend(parsed.iter().flat_map(documents::check_columns));
    violations
}

fn check_spec(text: Option<&str>) -> Vec<Violation> {
    let path = Path::new("SPEC.md");
    let Some(text) = text else {
        return vec![Violation::new(path, 0, "is missing; it holds the numbers that we promise")];
    };
    let faults = spec::parse(text).err().unwrap_or_default();
    let violation = |fault: String| {
        let rest = fault.strip_prefix("SPEC.md:").unwrap_or(&fault);
        let (line, advice) = rest.split_once(": ").unwrap_or(("0", rest));
        Violation::new(path, line.parse().unwrap_or(0), advice)
    };
    faults.into_iter().map(violation).collect()
}

/// Returns every text file of the repository: tracked, or new and not ignored.
fn text_files() -> Result<Vec<(PathBuf, String)>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let list = process::stdout_of(git.current_dir(workspace::root()))?;
    let mut files = Vec::new();
    for name in list.split('\0').filter(|name| !name.is_empty()) {
        let path = workspace::root().join(name);
        if !path.is_file() {
            continue; // removed but not yet committed, or a link to a directory
        }
        let bytes = fs::read(&path).with_context(|| format!("reading {name}"))?;
        if let Ok(text) = String::from_utf8(bytes) {
            files.push((PathBuf::from(name), text));
        }
    }
    Ok(files)
}
