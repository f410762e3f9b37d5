//! The kernel's information on all threads of this process, to see where one stands.

use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Returns every thread and child, with its wait channel and system call.
pub fn threads() -> String {
    let mut text = String::new();
    let mut children = Vec::new();
    for task in folders(Path::new("/proc/self/task")) {
        write!(text, "{}", of(&task)).ok();
        children.extend(read(&task, "children").split_whitespace().map(str::to_owned));
    }
    for child in children {
        write!(text, "child {}", of(&Path::new("/proc").join(child))).ok();
    }
    text
}

fn folders(path: &Path) -> Vec<std::path::PathBuf> {
    fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn of(task: &Path) -> String {
    let id = task.file_name().unwrap_or_default().to_string_lossy();
    let status = read(task, "status");
    let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or("").trim();
    let [name, place, call, stack] = ["comm", "wchan", "syscall", "stack"].map(|f| read(task, f));
    let stack: String = stack.lines().map(|line| format!("    {line}\n")).collect();
    format!("{id} {name}: {state}, wchan {place}, syscall {call}\n{stack}")
}

fn read(task: &Path, file: &str) -> String {
    fs::read_to_string(task.join(file)).unwrap_or_default().trim().to_owned()
}
