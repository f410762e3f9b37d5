//! Finds other balancers that move memory or threads between nodes: the kernel's NUMA balancing,
//! numad, schemes of DAMON.

use std::path::{Path, PathBuf};

use nodeward_machine::Result;
use nodeward_model::OtherBalancer;

use crate::kernel_file;
use crate::{numa_balancing, process_lookup};

const KDAMONDS: &str = "sys/kernel/mm/damon/admin/kdamonds";
/// The actions of schemes that move memory between nodes.
const MIGRATES: [&str; 2] = ["migrate_hot", "migrate_cold"];

/// Returns all of them, below a root. Only root can see schemes of DAMON.
///
/// # Errors
/// If /proc cannot be listed.
pub fn find(root: &Path) -> Result<Vec<OtherBalancer>> {
    let kernel = numa_balancing::mode(root)
        .filter(|&mode| mode != 0)
        .map(|mode| OtherBalancer::Kernel { mode });
    let numad = process_lookup::by_name(root, &"numad".into())?
        .into_iter()
        .map(|pid| OtherBalancer::Numad { pid });
    let schemes =
        schemes(&root.join(KDAMONDS)).into_iter().map(|path| OtherBalancer::Damon { path });
    Ok(kernel.into_iter().chain(numad).chain(schemes).collect())
}

/// Returns the migrating schemes of the kdamonds that run.
fn schemes(kdamonds: &Path) -> Vec<PathBuf> {
    let runs = |kdamond: &PathBuf| read(&kdamond.join("state")).is_some_and(|state| state == "on");
    let contexts = numbered(kdamonds).into_iter().filter(runs);
    let contexts = contexts.flat_map(|kdamond| numbered(&kdamond.join("contexts")));
    let schemes = contexts.flat_map(|context| numbered(&context.join("schemes")));
    let migrates = |scheme: &PathBuf| {
        read(&scheme.join("action")).is_some_and(|action| MIGRATES.contains(&action.as_str()))
    };
    schemes.filter(migrates).collect()
}

/// Returns the directories of a list that sysfs numbers from 0.
fn numbered(list: &Path) -> Vec<PathBuf> {
    let folder = |number: u32| Some(list.join(number.to_string())).filter(|path| path.is_dir());
    (0..).map_while(folder).collect()
}

fn read(path: &Path) -> Option<String> {
    kernel_file::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use nodeward_model::Pid;

    use super::*;

    const BALANCING: &str = "proc/sys/kernel/numa_balancing";

    fn found(files: &[(&str, &str)]) -> Vec<OtherBalancer> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files.iter().chain([&("proc/1/comm", "init\n")]) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut rivals = find(root.path()).unwrap();
        for rival in &mut rivals {
            if let OtherBalancer::Damon { path } = rival {
                *path = path.strip_prefix(root.path().join(KDAMONDS)).unwrap().to_owned();
            }
        }
        rivals
    }

    /// Goal: the kernel's balancing is reported in each of its modes, and not when it is off or not
    /// built in.
    #[test]
    fn the_kernel_balances_or_not() {
        for (text, expected) in
            [("1\n", vec![1]), ("2\n", vec![2]), ("3\n", vec![3]), ("0\n", vec![])]
        {
            let expected: Vec<_> =
                expected.into_iter().map(|mode| OtherBalancer::Kernel { mode }).collect();
            assert_eq!(found(&[(BALANCING, text)]), expected);
        }
        assert_eq!(found(&[]), []);
    }

    /// Goal: every running numad is found by its name.
    #[test]
    fn numad_is_named() {
        let pid = |number| Pid::new(number).unwrap();
        let files =
            [("proc/88/comm", "numad\n"), ("proc/7/comm", "numad\n"), ("proc/9/comm", "x\n")];
        let expected = [7, 88].map(|number| OtherBalancer::Numad { pid: pid(number) });
        assert_eq!(found(&files), expected);
    }

    /// Goal: of DAMON's schemes only those that migrate count, and only while their kdamond runs.
    #[test]
    fn schemes_count_while_they_run_and_migrate() {
        let file = |path: &str| format!("{KDAMONDS}/{path}");
        let files = [
            (file("0/state"), "on\n"),
            (file("0/contexts/0/schemes/0/action"), "stat\n"),
            (file("0/contexts/0/schemes/1/action"), "migrate_cold\n"),
            (file("0/contexts/1/schemes/0/action"), "migrate_hot\n"),
            (file("1/state"), "off\n"),
            (file("1/contexts/0/schemes/0/action"), "migrate_hot\n"),
        ];
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let schemes = ["0/contexts/0/schemes/1", "0/contexts/1/schemes/0"];
        assert_eq!(found(&files), schemes.map(|path| OtherBalancer::Damon { path: path.into() }));
    }
}
