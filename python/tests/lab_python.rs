//! The package for Python on a machine with two nodes, a guest of the lab, with the Python of the
//! host: the same tests, the example, and moves by the agent where a seccomp filter forbids them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nodeward_lab::{GuestFile, GuestKernel, GuestRun, open_for_test, scenario};

use crate::installation::{all_is_tested, attempt, environment, package, scratch, source};

#[allow(dead_code, reason = "the tests on the host use the rest")]
mod installation;

/// Emulated, the tests take minutes.
const TIMEOUT: Duration = Duration::from_secs(1800);

/// Later numpy needs a processor that the lab does not emulate.
const PACKAGES: [&str; 2] = ["numpy<2.4", "pytest"];

/// Copies the standard library to sys.argv[1]; prints the program and the directory of packages.
const COPY: &str = "\
import os, shutil, sys, sysconfig
paths = sysconfig.get_paths()
name = os.path.basename(paths['stdlib'])
left_out = ['test', 'site-packages', 'dist-packages', 'idlelib', 'ensurepip', 'tkinter',
            '__pycache__', 'config-*', '*.a', 'lib2to3', 'turtledemo', 'pydoc_data']
shutil.copytree(paths['stdlib'], os.path.join(sys.argv[1], 'lib', name),
                ignore=shutil.ignore_patterns(*left_out))
print(os.path.realpath(sys.executable))
print(paths['platlib'])
";

/// What is typed in the guest.
const SCRIPT: &str = "\
set -e
cd /srv/tests
export PYTHONHOME=/srv/python PYTHONPATH=/srv/package:/srv/packages PYTHONDONTWRITEBYTECODE=1
export NODEWARD_STATE_DIR=/tmp/state
/srv/python3 -P -m pytest --quiet -rs -p no:cacheprovider tests
/srv/python3 -P examples/move_under_reader.py 16MiB
export NODEWARD_SOCKET=/tmp/agent.sock
nodeward balance --quiet --name nobody --socket $NODEWARD_SOCKET &
trap 'kill $!' EXIT
until [ -S $NODEWARD_SOCKET ]; do kill -0 $!; sleep 0.1; done
/srv/python3 -P tests/lab/by_agent.py
";

/// The Python of the host, its packages, ours, and our tests, with their places in the guest.
fn files(python: &Path) -> Vec<GuestFile> {
    let copied = scratch("guest");
    _ = fs::remove_dir_all(&copied);
    let told = attempt(Command::new(python).args(["-c", COPY]).arg(&copied)).unwrap();
    let [program, packages] = told.lines().collect::<Vec<_>>()[..] else { panic!("{told}") };
    let at = |host: &Path, guest: &str| GuestFile { host: host.into(), guest: Some(guest.into()) };
    let guest = PathBuf::from(env::var_os("NODEWARD_GUEST_DIR").expect("xtask ci sets it"));
    vec![
        at(Path::new(program), "/srv/python3"),
        at(&copied, "/srv/python"),
        at(Path::new(packages), "/srv/packages"),
        at(package(), "/srv/package"),
        at(&source().join("tests"), "/srv/tests/tests"),
        at(&source().join("examples"), "/srv/tests/examples"),
        at(&source().join("../docs/tutorial/python.md"), "/srv/docs/tutorial/python.md"),
        GuestFile::new(guest.join("nodeward")),
    ]
}

/// Goal: on two nodes all tests in Python pass, the example moves what it says and loses nothing,
/// and where the kernel forbids a user to move and to look, the agent does it.
#[test]
fn python_on_two_nodes() {
    if !all_is_tested() {
        return;
    }
    let Some(lab) = open_for_test(&GuestKernel::V6_12) else { return };
    let python = environment("emulated", &PACKAGES).expect("python3 with venv, and its packages");
    let mut run = GuestRun::shell(scenario("two-nodes"), SCRIPT);
    run.files = files(&python);
    run.timeout = TIMEOUT;
    let finished = lab.run(&run).expect("the lab runs");
    let told = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (told(&finished.stdout), told(&finished.stderr));
    println!("{stdout}\n{stderr}");
    assert_eq!((finished.code, finished.timed_out), (0, false), "{stdout}\n{stderr}");
    // What stays of it stays within the stall budget: emulated, a page takes long.
    let moved = stdout.lines().find_map(|line| line.split_once(" MiB moved, "));
    let mebibytes = moved.and_then(|(count, _)| count.parse::<u32>().ok());
    assert!(mebibytes > Some(0) && stdout.contains(" 0 wrong elements"), "{stdout}");
    assert!(stdout.contains("moved by the agent"), "{stdout}");
}
