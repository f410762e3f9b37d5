//! A Python with the packages that tests need, in an environment of its own below the target
//! directory, and the package that was built with these tests.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What the tests need beside the standard library, and what `make test-long` needs.
const PACKAGES: [&str; 2] = ["numpy", "pytest"];
const MORE_PACKAGES: [&str; 1] = ["mypy"];

pub fn is_long() -> bool {
    env::var_os("NODEWARD_TESTS").is_some_and(|value| value == "long")
}

/// Whether all of each kind is tested; says what is skipped where it is not.
pub fn all_is_tested() -> bool {
    if !is_long() {
        eprintln!("skipped: `make test-long` tests it");
    }
    is_long()
}

pub fn source() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A path in the directory that cargo keeps for these tests, which one run of them has at a time.
pub fn scratch(name: &str) -> PathBuf {
    static ALONE: OnceLock<File> = OnceLock::new();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
    ALONE.get_or_init(|| {
        fs::create_dir_all(&directory).unwrap();
        let lock = File::create(directory.join("lock")).unwrap();
        lock.lock().unwrap();
        lock
    });
    directory.join(name)
}

/// Runs a command; returns what it said if it fails.
pub fn attempt(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(said(&output.stdout)),
        false => Err(format!(
            "{command:?} ended with {}: {}{}",
            output.status,
            said(&output.stdout),
            said(&output.stderr)
        )),
    }
}

/// The Python of an environment in which packages are installed, made when it is first needed.
pub fn environment(name: &str, packages: &[&str]) -> Result<PathBuf, String> {
    let directory = scratch(name);
    let (python, complete) = (directory.join("bin/python"), directory.join("complete"));
    if complete.exists() {
        return Ok(python);
    }
    let recent = "import sys; sys.exit(sys.version_info < (3, 11) and 'it is older than 3.11')";
    attempt(Command::new("python3").args(["-c", recent]))?;
    attempt(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&directory))?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    attempt(pip.args(["--retries", "1", "--timeout", "15"]).args(packages))?;
    fs::write(complete, "").unwrap();
    Ok(python)
}

/// A Python with all that the tests need, or `None` where they are skipped.
pub fn python() -> Option<PathBuf> {
    let (name, packages) = match is_long() {
        true => ("long", [&PACKAGES[..], &MORE_PACKAGES].concat()),
        false => ("short", PACKAGES.to_vec()),
    };
    match environment(name, &packages) {
        Ok(python) => Some(python),
        Err(why) if is_long() => panic!("no Python to test with: {why}"),
        Err(why) => {
            eprintln!("skipped: no Python to test with: {why}");
            None
        }
    }
}

/// The module: where `cargo xtask ci` has built it together with the tests, or built now.
pub fn module() -> PathBuf {
    let built = env::var_os("NODEWARD_LIBRARY_DIR").map(PathBuf::from);
    built.map_or_else(build, |directory| directory.join("libnodeward_python.so"))
}

fn build() -> PathBuf {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--package", env!("CARGO_PKG_NAME"), "--message-format", "json"]);
    let messages = attempt(cargo.current_dir(source())).unwrap();
    let module = messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let files = message["filenames"].as_array()?.iter().filter_map(|file| file.as_str());
        files.map(PathBuf::from).find(|file| file.ends_with("libnodeward_python.so"))
    });
    module.expect("cargo builds the module")
}

/// A directory for PYTHONPATH that has the package, as a wheel would install it.
pub fn package() -> &'static Path {
    static PACKAGE: OnceLock<PathBuf> = OnceLock::new();
    PACKAGE.get_or_init(|| {
        let path = scratch("path");
        let package = path.join("nodeward");
        if path.exists() {
            fs::remove_dir_all(&path).unwrap();
        }
        fs::create_dir_all(&package).unwrap();
        for file in fs::read_dir(source().join("nodeward")).unwrap().flatten() {
            if file.path().is_file() {
                fs::copy(file.path(), package.join(file.file_name())).unwrap();
            }
        }
        fs::copy(module(), package.join("_native.abi3.so")).unwrap();
        path
    })
}

/// A command of that Python, which finds the package and leaves nothing in the source tree.
pub fn command(python: &Path) -> Command {
    let mut command = Command::new(python);
    // Not the present directory, in which the package has no module.
    command.arg("-P").env("PYTHONPATH", package()).env("PYTHONDONTWRITEBYTECODE", "1");
    command.current_dir(source());
    command
}
