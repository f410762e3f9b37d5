//! Finds failed tests in the output of cargo and the test programs.
//!
//! A program prints `test NAME ... FAILED` when that happens, and lists all names once more under
//! `failures:` before its `test result:`. The list is decisive, because other output may interrupt
//! a line; the lines are used only for a program that did not get that far. Cargo names each
//! program before it runs, and after a failure how to run it again.

/// A test that failed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FailedTest {
    /// Cargo's arguments to run its program again, such as `-p nodeward-cli --test commands`.
    pub program: String,
    /// Its name, or how the program ended.
    pub test: String,
}

/// Parses output line by line.
#[derive(Debug, Default)]
pub struct FailureReader {
    program: TestProgram,
    failed: Vec<FailedTest>,
}

/// State of the running program.
#[derive(Debug, Default)]
struct TestProgram {
    name: String,
    /// Tests reported as failed and not listed so far.
    failed_lines: Vec<String>,
    /// The names below the last `failures:`.
    listed_failures: Option<Vec<String>>,
    failed: Vec<String>,
    /// The end of the program, if unusual for a test program.
    end: Option<String>,
    rerun_was_advised: bool,
}

impl FailureReader {
    /// Processes the next line, without its line end.
    pub fn line(&mut self, line: &str) {
        if let Some(name) = started_program(line) {
            self.end();
            self.program.name = name.to_owned();
        } else {
            self.program.line(line);
        }
    }

    /// Ends the program that ran.
    pub fn end(&mut self) {
        let program = std::mem::take(&mut self.program);
        let name = program.name.clone();
        let failures = program.failures().into_iter();
        self.failed.extend(failures.map(|test| FailedTest { program: name.clone(), test }));
    }

    /// Returns all failures, sorted and without duplicates.
    pub fn failed(mut self) -> Vec<FailedTest> {
        self.end();
        self.failed.sort();
        self.failed.dedup();
        self.failed
    }
}

impl TestProgram {
    fn line(&mut self, line: &str) {
        if line == "failures:" {
            self.listed_failures = Some(Vec::new());
        } else if line.starts_with("test result: ") {
            self.sum_up();
        } else if let Some(again) = rerun_arguments(line) {
            self.name = again.to_owned();
            self.rerun_was_advised = true;
        } else if let Some(end) = abnormal_end(line) {
            self.end = Some(end.to_owned());
        } else if let Some(test) = failed_test(line) {
            self.failed_lines.push(test.to_owned());
        } else if let (Some(listed), Some(test)) =
            (&mut self.listed_failures, line.strip_prefix("    "))
        {
            listed.push(test.to_owned());
        }
    }

    fn sum_up(&mut self) {
        let told = std::mem::take(&mut self.failed_lines);
        self.failed.extend(self.listed_failures.take().unwrap_or(told));
    }

    fn failures(mut self) -> Vec<String> {
        self.failed.append(&mut self.failed_lines);
        let unnamed = self.rerun_was_advised && self.failed.is_empty();
        let end = self.end.or(unnamed.then(|| "a failure".to_owned()));
        self.failed.extend(end.map(|end| format!("(the program ended by {end})")));
        self.failed
    }
}

/// Returns the program that cargo is about to start: `     Running tests/a.rs
/// (target/debug/deps/a-0f)`, or `   Doc-tests a`.
fn started_program(line: &str) -> Option<&str> {
    let words = line.strip_prefix("   ")?.trim_start();
    let runs = words.strip_prefix("Running ").filter(|rest| rest.ends_with(')'));
    runs.or(words.starts_with("Doc-tests ").then_some(words))
}

fn rerun_arguments(line: &str) -> Option<&str> {
    let words = line.strip_prefix("error: ")?;
    let words = words.strip_prefix("test").or(words.strip_prefix("doctest"))?;
    words.strip_prefix(" failed, to rerun pass `")?.strip_suffix('`')
}

/// Returns how a program ended, unless by the exit code of test programs with a failed test.
fn abnormal_end(line: &str) -> Option<&str> {
    let words = line.strip_prefix("  process didn't exit successfully: `")?;
    let end = words.rsplit_once("` (")?.1.strip_suffix(')')?;
    (end != "exit status: 101").then_some(end)
}

fn failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(text: &str) -> Vec<(String, String)> {
        let mut reader = FailureReader::default();
        text.lines().for_each(|line| reader.line(line));
        reader.failed().into_iter().map(|failure| (failure.program, failure.test)).collect()
    }

    fn pair(program: &str, test: &str) -> (String, String) {
        (program.to_owned(), test.to_owned())
    }

    /// Goal: names come from the list at a program's end, with cargo's arguments to run it again.
    /// The output of a failed test is not taken for a test, nor is an interrupted line.
    #[test]
    fn names_of_failed_tests_and_their_programs() {
        let text = "\
     Running unittests src/lib.rs (target/debug/deps/one-1234)

running 1 test
test fine ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

     Running tests/commands/main.rs (target/debug/deps/commands-5678)

running 3 tests
test a::fine ... ok
test a::loud ... FAILED
a child wrote thistest a::broken ... FAILED

failures:

---- a::loud stdout ----
    an indented line of its own

thread 'a::loud' (7) panicked at crates/cli/tests/commands/main.rs:1:1:

failures:
    a::broken
    a::loud

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

error: test failed, to rerun pass `-p nodeward-cli --test commands`
     Running tests/last.rs (target/debug/deps/last-9abc)

running 1 test
test fine ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

error: 1 target failed:
    `-p nodeward-cli --test commands`
";
        let program = "-p nodeward-cli --test commands";
        assert_eq!(failed(text), [pair(program, "a::broken"), pair(program, "a::loud")]);
    }

    /// Goal: documentation tests are named, with merged ones in several rounds of one section.
    #[test]
    fn documentation_tests() {
        let text = "\
   Doc-tests nodeward

running 1 test
test crates/nodeward/src/a.rs - a (line 3) - compile ... FAILED

failures:

---- crates/nodeward/src/a.rs - a (line 3) stdout ----
error: expected one of

failures:
    crates/nodeward/src/a.rs - a (line 3)

test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s


running 1 test
test crates/nodeward/src/b.rs - b (line 9) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s

error: doctest failed, to rerun pass `-p nodeward --doc`
";
        let test = "crates/nodeward/src/a.rs - a (line 3)";
        assert_eq!(failed(text), [pair("-p nodeward --doc", test)]);
    }

    /// Goal: of a program that dies, the failed tests and its end are named; a program without a
    /// named test is named itself.
    #[test]
    fn programs_that_die_are_named() {
        let text = "\
     Running tests/dies.rs (target/debug/deps/dies-1)

running 2 tests
test first ... FAILED
error: test failed, to rerun pass `-p a --test dies`

Caused by:
  process didn't exit successfully: `/t/dies-1` (signal: 6, SIGABRT: process abort signal)
     Running tests/leaves.rs (target/debug/deps/leaves-2)

running 1 test
error: test failed, to rerun pass `-p a --test leaves`
     Running tests/unfinished.rs (target/debug/deps/unfinished-3)

running 2 tests
test one ... FAILED
";
        let signal = "(the program ended by signal: 6, SIGABRT: process abort signal)";
        assert_eq!(
            failed(text),
            [
                pair("-p a --test dies", signal),
                pair("-p a --test dies", "first"),
                pair("-p a --test leaves", "(the program ended by a failure)"),
                pair("tests/unfinished.rs (target/debug/deps/unfinished-3)", "one"),
            ]
        );
    }

    #[test]
    fn nothing_fails_in_a_build() {
        assert_eq!(failed("   Compiling a v0.1.0\n    Finished `test` profile\nerror: no\n"), []);
    }
}
