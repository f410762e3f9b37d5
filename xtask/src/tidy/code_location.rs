//! Rules about what code may use where: unsafe code, inputs of decisions, and /proc.

use super::forbidden_words::contains_word;
use super::source::RustSource;
use super::violation::Violation;

/// The only places for unsafe code.
const UNSAFE_DIRS: &[&str] = &[
    "crates/bpf/src/sys.rs",
    "crates/linux/src/sys",
    "crates/linux/src/sys.rs",
    "crates/pager/src/sys",
    "crates/capi/src",
    "python/src",
    "crates/proof/src/peers/sys.rs",
    "lab/counter/src/sys",
    "lab/counts/src/sys",
];

/// Crates that decide. Their results depend on their arguments alone.
const PURE: &[&str] = &["crates/policy/src", "crates/batch/src"];

/// Words that decisions may not use, with the remedy.
const IMPURE: &[(&str, &str)] = &[
    ("std::time", "take the time as an argument"),
    ("Instant", "take the time as an argument"),
    ("SystemTime", "take the time as an argument"),
    ("HashMap", "its order changes from run to run; use BTreeMap"),
    ("HashSet", "its order changes from run to run; use BTreeSet"),
    ("std::fs", "take what was read as an argument"),
    ("std::env", "take the setting as an argument"),
    ("std::net", "decisions do no IO"),
    ("std::process", "decisions do no IO"),
    ("std::thread", "decisions run where they are called"),
    ("std::io", "decisions do no IO"),
    ("println!", "return a Reason"),
    ("print!", "return a Reason"),
    ("eprintln!", "return a Reason"),
    ("eprint!", "return a Reason"),
    ("tracing", "return a Reason"),
    ("rand", "take the choice as an argument"),
    ("f32", "decide with integers or fixed point"),
    ("f64", "decide with integers or fixed point"),
];

/// The verbs, which must use the readers of `linux`.
const CLI_DIR: &str = "crates/cli/src";

/// Functions that create files with a mode from the umask; `crates/files` sets it instead.
const FILE_CREATORS: &[&str] =
    &["File::create", "fs::write", "create_dir", "DirBuilder", ".create(", ".create_new("];

/// Functions that open a file by its name, which block at a pipe.
const FILE_OPENERS: &[&str] = &["File::open", "fs::read(", "fs::read_to_string"];

/// Code that opens only files by name.
const REGULAR_FILES_ONLY_DIRS: &[&str] =
    &["crates/records/src", "crates/cli/src/settings", "crates/cli/src/settings.rs"];

/// Crates that print foreign names, with the functions that must not print those.
const NAME_SHOWING_DIRS: [&str; 9] = [
    "crates/balancer/src",
    "crates/cli/src",
    "crates/mover/src",
    "crates/linux/src",
    "crates/machine/src",
    "crates/model/src",
    "crates/samples/src",
    "crates/sim/src",
    "crates/records/src",
];
const RAW: [&str; 2] = [".display()", "to_string_lossy"];

/// Checks all these rules.
pub fn check(source: &RustSource) -> Vec<Violation> {
    let mut violations = check_unsafe(source);
    violations.extend(check_pure(source));
    violations.extend(check_files(source));
    violations.extend(check_verbs(source));
    violations.extend(check_names(source));
    violations
}

fn check_unsafe(source: &RustSource) -> Vec<Violation> {
    if UNSAFE_DIRS.iter().any(|room| source.is_in(room)) {
        return Vec::new();
    }
    let lines = source.layers.code.lines().enumerate();
    let found = lines.filter(|(_, line)| has_word(line, "unsafe"));
    let advice = "unsafe code stands only in python and crates/capi, in src/sys of \
                  crates/{bpf,linux,pager} and lab/{counter,counts}, and in peers/sys.rs of \
                  crates/proof; put it there";
    found.map(|(index, _)| source.violation(index + 1, advice)).collect()
}

fn check_pure(source: &RustSource) -> Vec<Violation> {
    if !PURE.iter().any(|room| source.is_in(room)) {
        return Vec::new();
    }
    let mut violations = Vec::new();
    for (line, text) in source.shipped_lines(&source.layers.code) {
        for (word, advice) in IMPURE.iter().filter(|(word, _)| has_word(text, word)) {
            let advice = format!("`{word}` in a crate that decides: {advice}");
            violations.push(source.violation(line, advice));
        }
    }
    violations
}

fn check_files(source: &RustSource) -> Vec<Violation> {
    if !source.is_in("crates") || source.is_in("crates/files") {
        return Vec::new();
    }
    let opens_files_only = REGULAR_FILES_ONLY_DIRS.iter().any(|room| source.is_in(room));
    let openers = if opens_files_only { FILE_OPENERS } else { &[] };
    let mut violations = Vec::new();
    for (line, text) in source.shipped_lines(&source.layers.code) {
        for word in FILE_CREATORS.iter().chain(openers).filter(|word| text.contains(**word)) {
            let advice = format!("`{word}`: open and make files by way of crates/files");
            violations.push(source.violation(line, advice));
        }
    }
    violations
}

fn check_verbs(source: &RustSource) -> Vec<Violation> {
    if !source.is_in(CLI_DIR) {
        return Vec::new();
    }
    let opens = |line: &str| ["\"/proc", "\"/sys/"].iter().any(|start| line.contains(start));
    let found = source.shipped_lines(&source.layers.literals).filter(|(_, line)| opens(line));
    let advice = "a verb reads no kernel file itself; ask a reader of crates/linux";
    found.map(|(line, _)| source.violation(line, advice)).collect()
}

fn check_names(source: &RustSource) -> Vec<Violation> {
    if !NAME_SHOWING_DIRS.iter().any(|room| source.is_in(room)) {
        return Vec::new();
    }
    let shows = |line: &str| RAW.iter().any(|raw| line.contains(raw));
    let found = source.shipped_lines(&source.layers.code).filter(|(_, line)| shows(line));
    let advice = "others choose names: show this one by escaped(), or keep it as a Name";
    found.map(|(line, _)| source.violation(line, advice)).collect()
}

/// Returns whether the word is in the line with no letter on either side.
fn has_word(line: &str, word: &str) -> bool {
    let whole = |at: usize| {
        let after = line[at + word.len()..].chars().next();
        after.is_none_or(|c| !c.is_alphanumeric() && c != '_')
    };
    contains_word(line, word) && line.match_indices(word).any(|(at, _)| whole(at))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&RustSource::new(Path::new(path), text)).len()
    }

    #[test]
    fn unsafe_code_stays_in_its_room() {
        let text = "#![forbid(unsafe_code)]\nfn f() { unsafe { g() } } // unsafe\n";
        assert_eq!(count("crates/model/src/lib.rs", text), 1);
        assert_eq!(count("crates/linux/src/procfs.rs", text), 1);
        assert_eq!(count("crates/linux/src/sys/calls.rs", text), 0);
        assert_eq!(count("crates/linux/src/sys.rs", text), 0);
    }

    #[test]
    fn files_are_made_in_one_place() {
        let makes = "let a = File::create(path)?;\nstd::fs::write(path, text)?;\n";
        assert_eq!(count("crates/cli/src/verbs/sim.rs", makes), 2);
        assert_eq!(count("crates/files/src/make.rs", makes), 0);
        let opens = "let a = File::open(path)?;\n";
        assert_eq!(count("crates/records/src/state.rs", opens), 1);
        assert_eq!(count("crates/linux/src/procfs/stat.rs", opens), 0, "a file of the kernel");
    }

    #[test]
    fn decisions_do_not_see_the_world() {
        let text = "use std::time::Instant;\nlet a: f64 = 1.0;\nlet strand = 1;\n";
        assert_eq!(count("crates/policy/src/plan.rs", text), 3);
        assert_eq!(count("crates/mover/src/round.rs", text), 0);
    }

    #[test]
    fn the_tests_of_decisions_may_see_the_world() {
        let text = "#[cfg(test)]\nmod tests {\n    use std::time::Instant;\n}\n";
        assert_eq!(count("crates/policy/src/plan.rs", text), 0);
    }

    #[test]
    fn names_are_shown_escaped() {
        let raw =
            "f(path.display());\ng(name.to_string_lossy());\nh(path.escaped()); // .display()\n";
        assert_eq!(count("crates/cli/src/verbs.rs", raw), 2);
        assert_eq!(count("xtask/src/main.rs", raw), 0);
        let test = "#[cfg(test)]\nmod tests {\n    f(path.display());\n}\n";
        assert_eq!(count("crates/cli/src/verbs.rs", test), 0);
    }

    #[test]
    fn verbs_open_no_kernel_file_but_may_speak_of_one() {
        let opens = "let a = open(\"/proc/1/stat\");\n";
        assert_eq!(count("crates/cli/src/verbs.rs", opens), 1);
        assert_eq!(count("crates/linux/src/procfs.rs", opens), 0);
        let speaks = "/// Reads \"/proc\".\nlet a = \"is /proc mounted?\";\n";
        assert_eq!(count("crates/cli/src/verbs.rs", speaks), 0);
    }
}
