//! The package for Python as Python sees it: `tests/test_*.py`, in an environment of its own below
//! the target directory, with the module that was built with these tests. Where Python or the
//! packages that the tests need are missing, they are skipped and say why, but not with
//! `NODEWARD_TESTS=long`.

use std::process::Command;
use std::{env, fs};

use crate::installation::{all_is_tested, attempt, command, environment, python, scratch, source};
use crate::stage::Stage;

#[allow(dead_code, reason = "the test in the lab uses the rest")]
mod installation;
#[allow(dead_code, reason = "the tests of the agent use the rest")]
#[path = "../../crates/agent/tests/socket/stage.rs"]
mod stage;

/// Goal: all tests in Python pass, with an agent at hand.
#[test]
fn the_tests_in_python_pass() {
    let Some(python) = python() else { return };
    let stage = Stage::new();
    let mut pytest = command(&python);
    pytest.args(["-m", "pytest", "--quiet", "-rs", "tests"]).env("NODEWARD_SOCKET", stage.path());
    println!("{}", attempt(&mut pytest).unwrap_or_else(|said| panic!("{said}")));
    assert_eq!(stage.groups.lock().iter().count(), 0, "every group was deleted");
}

/// Goal: the example moves an array under a reader of numpy, and no word is lost.
#[test]
fn the_example_loses_nothing() {
    let Some(python) = python() else { return };
    let told = attempt(command(&python).args(["examples/move_under_reader.py", "8MiB"])).unwrap();
    assert!(told.contains("0 wrong"), "{told}");
}

/// Goal: the stubs say what the module has.
#[test]
fn the_stubs_are_those_of_the_module() {
    if !all_is_tested() {
        return;
    }
    let Some(python) = python() else { return };
    let told = attempt(command(&python).args(["-m", "mypy.stubtest", "nodeward"]));
    println!("{}", told.unwrap_or_else(|said| panic!("{said}")));
}

/// Goal: the wheel is installed into a clean environment by pip, and the five-minute page works
/// with what was installed.
#[test]
fn the_wheel_is_installed() {
    if !all_is_tested() {
        return;
    }
    let root = source().parent().unwrap();
    let mut wheel = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let built = attempt(wheel.args(["xtask", "wheel"]).current_dir(root)).unwrap();
    // maturin tells its steps on the same output.
    let is_wheel = |line: &&str| line.ends_with(".whl") && !line.contains(' ');
    let mut wheels = built.lines().filter(is_wheel);
    let file = wheels.find(|line| line.contains(env::consts::ARCH)).expect("a wheel");
    let clean = scratch("clean");
    _ = fs::remove_dir_all(&clean);
    let python = environment("clean", &["numpy", file]).unwrap();
    let page = "import doctest, sys; sys.exit(doctest.testfile(sys.argv[1], False, \
                optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).failed)";
    let page_path = root.join("docs/tutorial/python.md");
    attempt(Command::new(python).args(["-c", page]).arg(page_path).current_dir(&clean)).unwrap();
}
