//! Machines as one text file: every kernel file that describes the topology, line by line.
//!
//! Each line is a path below the root, a tab, and one line of that file. Lines of one file are
//! adjacent. Lines that start with `#` are comments. Users send such a file with a bug report, and
//! tests unpack it.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use nodeward_files::{Visibility, make_directory, write};

use super::{CPU_DIR, NODE_DIR};
use crate::kernel_file;

/// The captured files: directories below the root, and the names in them.
const NODE_FILES: [&str; 4] = ["cpulist", "cpumap", "meminfo", "distance"];
const POOL_FILES: [&str; 3] = ["nr_hugepages", "free_hugepages", "surplus_hugepages"];
const SET_FILES: [&str; 6] =
    ["online", "possible", "present", "has_cpu", "has_memory", "has_normal_memory"];
const CORE_FILES: [&str; 5] =
    ["thread_siblings_list", "core_siblings_list", "physical_package_id", "die_id", "core_id"];
const CACHE_FILES: [&str; 4] = ["level", "type", "size", "shared_cpu_list"];

/// The error of a captured text that cannot be unpacked, or of a directory that cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// A line is not a relative path, a tab and text.
    #[error("line {line} is not a path, a tab and text; capture the machine again")]
    Line {
        /// The line, counted from 1.
        line: usize,
    },
    /// A file could not be written.
    #[error("cannot write {path}: {source}; choose a directory that you may write to")]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Captures the machine below a root. Files that are missing or unreadable are left out.
pub fn capture(root: &Path) -> String {
    let mut text = String::new();
    let mut take = |path: String| add(&mut text, root, &path);
    SET_FILES.iter().for_each(|name| take(format!("{NODE_DIR}/{name}")));
    for node in numbered(&root.join(NODE_DIR), "node") {
        let dir = format!("{NODE_DIR}/{node}");
        NODE_FILES.iter().for_each(|name| take(format!("{dir}/{name}")));
        for pool in numbered(&root.join(&dir).join("hugepages"), "hugepages-") {
            POOL_FILES.iter().for_each(|name| take(format!("{dir}/hugepages/{pool}/{name}")));
        }
    }
    SET_FILES.iter().for_each(|name| take(format!("{CPU_DIR}/{name}")));
    for cpu in numbered(&root.join(CPU_DIR), "cpu") {
        let dir = format!("{CPU_DIR}/{cpu}");
        CORE_FILES.iter().for_each(|name| take(format!("{dir}/topology/{name}")));
        for index in numbered(&root.join(&dir).join("cache"), "index") {
            CACHE_FILES.iter().for_each(|name| take(format!("{dir}/cache/{index}/{name}")));
        }
    }
    text
}

fn add(text: &mut String, root: &Path, path: &str) {
    if let Ok(content) = kernel_file::read_to_string(root.join(path)) {
        add_file(text, path, &content);
    }
}

/// Appends one file to a captured text.
pub(super) fn add_file(text: &mut String, path: &str, content: &str) {
    for line in content.strip_suffix('\n').unwrap_or(content).split('\n') {
        text.extend([path, "\t", line, "\n"]);
    }
}

/// Returns the directories whose name is `prefix` and a number, in the order of the numbers.
fn numbered(dir: &Path, prefix: &str) -> Vec<String> {
    let names = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let number = |name: &str| -> Option<u64> {
        name.strip_prefix(prefix)?.trim_end_matches("kB").parse().ok()
    };
    let mut found: Vec<_> = names
        .filter_map(|name| name.into_string().ok())
        .filter_map(|name| Some((number(&name)?, name)))
        .collect();
    found.sort();
    found.into_iter().map(|(_, name)| name).collect()
}

/// Writes the files of a captured text below a root, which must be a directory.
pub fn unpack(text: &str, root: &Path) -> Result<(), CaptureError> {
    let mut open: Option<(&str, String)> = None;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with('#') {
            continue;
        }
        let (path, content) = split(line).ok_or(CaptureError::Line { line: index + 1 })?;
        match &mut open {
            Some((name, lines)) if *name == path => lines.extend([content, "\n"]),
            _ => {
                write_file(root, open.replace((path, format!("{content}\n"))))?;
            }
        }
    }
    write_file(root, open)
}

/// Splits a line into path and content. A path that could leave the root is refused.
fn split(line: &str) -> Option<(&str, &str)> {
    let (path, content) = line.split_once('\t')?;
    let stays = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    (stays && !path.is_empty()).then_some((path, content))
}

fn write_file(root: &Path, file: Option<(&str, String)>) -> Result<(), CaptureError> {
    let Some((path, content)) = file else { return Ok(()) };
    let path = root.join(path);
    let dir = path.parent().unwrap_or(root);
    make_directory(dir, Visibility::Everyone)
        .and_then(|()| write(&path, content, Visibility::Everyone))
        .map_err(|source| CaptureError::Write { path, source })
}
