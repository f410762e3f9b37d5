//! The library as C sees it: installed as `make install` does it, in the target directory.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use crate::stage::Stage;

#[allow(dead_code, reason = "the tests of the agent use the rest")]
#[path = "../../agent/tests/socket/stage.rs"]
mod stage;

/// No warning is let pass.
const C: [&str; 6] = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"];
const CPP: [&str; 6] = ["c++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic"];

const EXAMPLES: [&str; 3] = ["buffer_pool", "page_pool", "groups"];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// A path in the directory that cargo keeps for these tests, which one run of them has at a time.
fn scratch(name: &str) -> PathBuf {
    static ALONE: OnceLock<File> = OnceLock::new();
    ALONE.get_or_init(|| {
        let lock = File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join("lock")).unwrap();
        lock.lock().unwrap();
        lock
    });
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?} ended with {output:#?}");
    output
}

fn text(command: &mut Command) -> String {
    String::from_utf8(run(command).stdout).unwrap()
}

/// Returns whether a program is here; prints what is skipped if it is not.
fn is_here(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: {program} is not installed; `cargo xtask setup` may help");
    }
    found
}

/// The directory of the library: where `cargo xtask ci` has built it together with the tests, or
/// where it is built now. The tests of a package that is no Rust library do not make cargo build
/// it, and alone it takes other features of its dependencies, so all of these are built anew.
fn built_library() -> PathBuf {
    env::var_os("NODEWARD_LIBRARY_DIR").map_or_else(build, PathBuf::from)
}

fn build() -> PathBuf {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--package", "nodeward-capi", "--message-format", "json"]);
    let messages = text(cargo.current_dir(root()));
    let shared = messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let files = message["filenames"].as_array()?.iter().filter_map(|file| file.as_str());
        files.map(PathBuf::from).find(|file| file.ends_with("libnodeward.so"))
    });
    shared.expect("cargo builds libnodeward.so").parent().unwrap().to_path_buf()
}

/// The prefix below which the library is installed; once for all tests.
fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = scratch("installed");
        let mut make = Command::new("make");
        make.args(["install-library", "CARGO=true"]).current_dir(root());
        make.arg(format!("BUILT={}", built_library().display()));
        make.arg(format!("PREFIX={}", prefix.display())).env_remove("DESTDIR");
        run(&mut make);
        prefix
    })
}

fn library_directory() -> PathBuf {
    prefix().join("lib")
}

/// Returns the libraries that a program needs that is linked with the static library.
fn private_libs() -> Vec<String> {
    let file = fs::read_to_string(library_directory().join("pkgconfig/nodeward.pc")).unwrap();
    let line = file.lines().find_map(|line| line.strip_prefix("Libs.private:")).unwrap();
    line.split_ascii_whitespace().map(str::to_owned).collect()
}

/// Compiles and links a program of that name.
fn compile<S: AsRef<OsStr>>(name: &str, compiler: &[&str], source: &Path, libs: &[S]) -> PathBuf {
    let program = scratch(name);
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).arg("-I").arg(prefix().join("include")).arg(source).args(libs);
    run(command.arg("-L").arg(library_directory()).arg("-pthread").arg("-o").arg(&program));
    program
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn example(name: &str) -> PathBuf {
    source("examples").join(name).with_extension("c")
}

#[test]
fn the_examples_lose_nothing_with_the_shared_library() {
    for name in EXAMPLES.into_iter().filter(|_| is_here("cc") && is_here("make")) {
        let program = compile(&format!("{name}-shared"), &C, &example(name), &["-lnodeward"]);
        // Found by the name inside the library (its soname), for which only the link stands.
        println!("{}", text(Command::new(program).env("LD_LIBRARY_PATH", library_directory())));
    }
}

#[test]
fn the_examples_lose_nothing_with_the_static_library() {
    for name in EXAMPLES.into_iter().filter(|_| is_here("cc") && is_here("make")) {
        let mut libs = vec![library_directory().join("libnodeward.a").display().to_string()];
        libs.extend(private_libs());
        let program = compile(&format!("{name}-static"), &C, &example(name), &libs);
        // The library is in the program: no other place is named.
        println!("{}", text(Command::new(program).env_remove("LD_LIBRARY_PATH")));
    }
}

/// What calls do that are wrong, or odd: `tests/calls.c` has a check for each. They hold with the
/// backend that is chosen here, and with the one that is there everywhere.
#[test]
fn calls_do_what_the_header_says() {
    if is_here("cc") && is_here("make") {
        let program = compile("calls", &C, &source("tests/calls.c"), &["-lnodeward"]);
        run(Command::new(&program).env("LD_LIBRARY_PATH", library_directory()));
        run(Command::new(&program).arg("kernel").env("LD_LIBRARY_PATH", library_directory()));
    }
}

/// The same for a pool: `tests/pool_calls.c`.
#[test]
fn a_pool_refuses_what_is_wrong() {
    if is_here("cc") && is_here("make") {
        let program = compile("pool_calls", &C, &source("tests/pool_calls.c"), &["-lnodeward"]);
        run(Command::new(program).env("LD_LIBRARY_PATH", library_directory()));
    }
}

/// Goal: the calls of 2012 by their original names do what that document says:
/// `tests/group_calls.c`. Of 2 pages less a byte, the group has 2 pages.
#[test]
fn groups_are_those_of_2012() {
    if is_here("cc") && is_here("make") {
        let stage = Stage::new();
        let source = source("tests/group_calls.c");
        let program = compile("group_calls", &C, &source, &["-lnodeward"]);
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", library_directory()).env("NODEWARD_SOCKET", stage.path());
        let output = run(&mut command);
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        let told = String::from_utf8(output.stdout).unwrap();
        let (number, range) = told.trim().split_once(' ').unwrap();
        let groups = stage.groups.lock();
        let group = groups.get(number.parse().unwrap()).unwrap();
        let memory = group.parts.values().flat_map(|part| &part.memory).map(ToString::to_string);
        assert_eq!(memory.collect::<Vec<_>>(), [range]);
    }
}

/// Goal: the example makes a group of each part, does its work, and deletes them.
#[test]
fn the_example_groups_its_parts() {
    if is_here("cc") && is_here("make") {
        let stage = Stage::new();
        let program = compile("groups-agent", &C, &example("groups"), &["-lnodeward"]);
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", library_directory()).env("NODEWARD_SOCKET", stage.path());
        let told = text(&mut command);
        let groups = stage.groups.lock();
        assert_eq!(groups.iter().count(), 0, "{told}");
        // Which part came first, nobody knows.
        assert!(["was group 1", "was group 2"].iter().all(|it| told.contains(it)), "{told}");
    }
}

/// People look for their own mistakes with it: the library must run there, and not be what is
/// found.
#[test]
fn valgrind_has_nothing_to_say() {
    if is_here("cc") && is_here("make") && is_here("valgrind") {
        let program = compile("page_pool-valgrind", &C, &example("page_pool"), &["-lnodeward"]);
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--quiet", "--leak-check=full", "--errors-for-leak-kinds=definite"]);
        valgrind.args(["--error-exitcode=9"]).arg(program).arg("500");
        run(valgrind.env("LD_LIBRARY_PATH", library_directory()));
    }
}

#[test]
fn the_header_alone_is_enough_for_cpp() {
    if is_here("c++") && is_here("make") {
        let source = scratch("alone.cc");
        let body = "#include <nodeward_numa.h>\nint main() { return nodeward_last_error()[0]; }\n";
        fs::write(&source, body).unwrap();
        let program = compile("alone", &CPP, &source, &["-lnodeward"]);
        run(Command::new(program).env("LD_LIBRARY_PATH", library_directory()));
    }
}

#[test]
fn pkg_config_finds_library_and_header() {
    if is_here("pkg-config") && is_here("make") {
        let ask = |words: &[&str]| {
            let mut command = Command::new("pkg-config");
            let answer = text(
                command
                    .args(words)
                    .arg("nodeward")
                    .env("PKG_CONFIG_PATH", library_directory().join("pkgconfig")),
            );
            answer.trim().to_owned()
        };
        let at = prefix().display();
        assert_eq!(ask(&["--modversion"]), env!("CARGO_PKG_VERSION"));
        assert_eq!(ask(&["--cflags"]), format!("-I{at}/include"));
        assert_eq!(ask(&["--libs"]), format!("-L{at}/lib -lnodeward"));
    }
}

/// Neither more (what a program that links us could collide with) nor less.
#[test]
fn the_library_exports_what_the_header_declares() {
    if is_here("nm") && is_here("make") {
        let header = fs::read_to_string(prefix().join("include/nodeward.h")).unwrap();
        let declared: BTreeSet<&str> = header
            .lines()
            .filter(|line| !line.starts_with("//") && !line.starts_with("typedef"))
            .filter_map(|line| line.split_once('('))
            .map(|(before, _)| before.rsplit([' ', '*']).next().unwrap())
            .filter(|name| name.starts_with("nodeward_"))
            .collect();
        let mut nm = Command::new("nm");
        nm.args(["--dynamic", "--defined-only"]).arg(library_directory().join("libnodeward.so"));
        let symbols = text(&mut nm);
        let exported: BTreeSet<&str> =
            symbols.lines().filter_map(|line| line.split_ascii_whitespace().last()).collect();
        assert_eq!(exported, declared);
    }
}
