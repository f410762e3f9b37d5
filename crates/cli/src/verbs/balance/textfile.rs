//! Metrics as a textfile of node_exporter, which hands out what stands in its directory.

use std::path::PathBuf;

use nodeward_files::{Visibility, replace};
use nodeward_model::Escape as _;

/// Time between two versions, in nanoseconds: Prometheus asks every 15 s or more rarely.
const INTERVAL_NS: u64 = 5_000_000_000;

/// The file, which is removed at the end: what it says no longer holds then.
pub struct MetricsTextfile {
    path: PathBuf,
    /// Processes that it names at most.
    pub processes: usize,
    /// When it was written or tried last, by the machine's clock.
    tried_ns: Option<u64>,
    /// Why it could not be written then.
    problem: Option<String>,
    /// Whether a version of it is there.
    is_there: bool,
}

impl MetricsTextfile {
    /// Plans it; writes nothing yet.
    pub fn new(path: PathBuf, processes: usize) -> Self {
        Self { path, processes, tried_ns: None, problem: None, is_there: false }
    }

    /// Writes it if it is time. A problem is told once, and that it is over.
    pub fn write_if_due(&mut self, now_ns: u64, text: impl FnOnce() -> String) {
        let is_due = |tried_ns: u64| now_ns.saturating_sub(tried_ns) >= INTERVAL_NS;
        if !self.tried_ns.is_none_or(is_due) {
            return;
        }
        self.tried_ns = Some(now_ns);
        let problem = replace(&self.path, text(), Visibility::Everyone).err();
        self.is_there |= problem.is_none();
        if let Some(words) = self.note(problem.map(|error| error.to_string())) {
            say!("nodeward: {words}");
        }
    }

    /// Notes how a try ended. Returns what there is to tell that was not told before.
    fn note(&mut self, problem: Option<String>) -> Option<String> {
        let path = self.path.escaped();
        let is_new = problem != self.problem;
        let words = match &problem {
            Some(why) => format!(
                "metrics cannot be written to {path}, which is tried again; make its directory, \
                 make room there, or let the unit write there (ReadWritePaths=): {why}"
            ),
            None => format!("metrics are in {path} again"),
        };
        self.problem = problem;
        is_new.then_some(words)
    }
}

impl Drop for MetricsTextfile {
    fn drop(&mut self) {
        if self.is_there {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const S: u64 = 1_000_000_000;

    /// Goal: a missing directory is told once, with what to do, and that it is over; the file is
    /// there then, and everybody may read it. At the end it is gone.
    #[test]
    fn a_missing_directory_is_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics/nodeward.prom");
        let mut textfile = MetricsTextfile::new(path.clone(), 0);
        textfile.write_if_due(0, || "a 1\n".to_owned());
        assert!(textfile.problem.clone().unwrap().contains("No such file"));
        assert_eq!(textfile.note(textfile.problem.clone()), None, "told before");
        let other = textfile.note(Some("no space".to_owned())).unwrap();
        assert!(other.contains("make room there") && other.contains("ReadWritePaths="), "{other}");
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        textfile.write_if_due(5 * S, || "a 2\n".to_owned());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a 2\n");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o644);
        drop(textfile);
        assert_eq!(path.parent().unwrap().read_dir().unwrap().count(), 0);
    }

    /// Goal: it is written every five seconds at most, and nothing is made for it in between; what
    /// was never written is not removed.
    #[test]
    fn it_is_written_now_and_then() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nodeward.prom");
        std::fs::write(&path, "of others").unwrap();
        drop(MetricsTextfile::new(path.clone(), 0));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "of others");
        let mut textfile = MetricsTextfile::new(path.clone(), 0);
        textfile.write_if_due(7 * S, || "first".to_owned());
        textfile.write_if_due(11 * S, || unreachable!("not due"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first");
        textfile.write_if_due(12 * S, || "second".to_owned());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "second");
    }
}
