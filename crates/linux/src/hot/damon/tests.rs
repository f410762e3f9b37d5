//! A fake of DAMON's files as the kernel keeps them (6.12 and 7.3): directories appear when counts
//! are written, a running one cannot be changed, and every write is recorded.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nodeward_machine::fake::{FakeMachine, FakeProcess};
use nodeward_machine::{Error, Liveness, Machine, MovePagesCall, Process, Result};
use nodeward_model::{Pid, Range};

use super::files::DamonFiles;
use super::{RegionAccess, check, probe, setup, watch, watch_with};

/// Start, end and accesses of each region of one snapshot.
type RegionList = Vec<(u64, u64, u64)>;

/// The fake DAMON.
#[derive(Default)]
struct FakeDamon {
    files: RefCell<BTreeMap<String, String>>,
    written: RefCell<Vec<(String, String)>>,
    snapshots: RefCell<VecDeque<RegionList>>,
    /// The monitoring operations.
    operations: &'static str,
    /// The aggregation interval.
    aggregation_us: &'static str,
    /// True if it lists regions.
    lists: bool,
    /// The error number of switching it on, if that fails.
    on_fails: Option<i32>,
    /// The process exits at the snapshot of this number, counted from 0, which switches DAMON off.
    ends: Option<(usize, Arc<dyn Process>)>,
}

const SCHEME_FILES: [&str; 8] = [
    "action",
    "access_pattern/sz/min",
    "access_pattern/sz/max",
    "access_pattern/nr_accesses/min",
    "access_pattern/nr_accesses/max",
    "access_pattern/age/min",
    "access_pattern/age/max",
    "watermarks/interval_us",
];

fn error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

impl FakeDamon {
    fn new(looks: impl IntoIterator<Item = RegionList>) -> Self {
        let looks = RefCell::new(looks.into_iter().collect());
        let (operations, aggregation_us) = ("vaddr\nfvaddr", "1000");
        let kernel =
            Self { operations, aggregation_us, lists: true, snapshots: looks, ..Self::default() };
        kernel.set("nr_kdamonds", "0");
        kernel
    }

    fn set(&self, name: &str, text: &str) {
        self.files.borrow_mut().insert(name.to_owned(), text.to_string());
    }

    fn is(&self, name: &str, text: &str) -> bool {
        self.files.borrow().get(name).is_some_and(|found| found == text)
    }

    fn make(&self, folder: &str, names: &[&str], text: &str) {
        names.iter().for_each(|name| self.set(&format!("{folder}/{name}"), text));
    }

    fn count(&self, text: &str) -> io::Result<()> {
        if self.is("0/state", "on") {
            return Err(error(libc::EBUSY));
        }
        self.files.borrow_mut().retain(|name, _| !name.starts_with("0/"));
        if text == "1" {
            self.set("0/state", "off");
            self.set("0/contexts/nr_contexts", "0");
        }
        Ok(())
    }

    fn make_context(&self) {
        self.make("0/contexts/0", &["avail_operations", "operations"], self.operations);
        self.make("0/contexts/0", &["targets/nr_targets", "schemes/nr_schemes"], "0");
        self.set("0/contexts/0/monitoring_attrs/intervals/sample_us", "50");
        self.set("0/contexts/0/monitoring_attrs/intervals/aggr_us", self.aggregation_us);
    }

    fn make_scheme(&self) {
        self.make("0/contexts/0/schemes/0", &SCHEME_FILES, "0");
        if self.lists {
            self.set("0/contexts/0/schemes/0/tried_regions/total_bytes", "0");
        }
    }

    fn command(&self, command: &str) -> io::Result<()> {
        let is_on = self.is("0/state", "on");
        match (command, is_on) {
            ("on", false) => self.on_fails.map_or(Ok(()), |number| Err(error(number)))?,
            ("off", true) => {}
            ("off", false) => return Err(error(libc::EPERM)),
            ("update_schemes_tried_regions", true) => return self.list_regions(),
            _ => return Err(error(libc::EINVAL)),
        }
        self.set("0/state", command);
        Ok(())
    }

    fn list_regions(&self) -> io::Result<()> {
        let so_far = self.count_of("update_schemes_tried_regions");
        if let Some((_, process)) = self.ends.as_ref().filter(|(look, _)| *look == so_far - 1) {
            self.set("0/state", "off");
            process.move_pages(&MovePagesCall::new(false)).expect("it still runs");
            return Err(error(libc::ECANCELED));
        }
        let look = self.snapshots.borrow_mut().pop_front().unwrap_or_default();
        let folder = "0/contexts/0/schemes/0/tried_regions";
        self.files.borrow_mut().retain(|name, _| !name.starts_with(&format!("{folder}/")));
        self.set(&format!("{folder}/total_bytes"), "0");
        for (index, (start, end, accesses)) in look.into_iter().enumerate() {
            self.set(&format!("{folder}/{index}/start"), &start.to_string());
            self.set(&format!("{folder}/{index}/end"), &end.to_string());
            self.set(&format!("{folder}/{index}/nr_accesses"), &accesses.to_string());
        }
        Ok(())
    }

    fn count_of(&self, text: &str) -> usize {
        self.written.borrow().iter().filter(|(_, written)| written == text).count()
    }

    /// Asserts that nothing is configured and nothing runs.
    fn assert_clear(&self) {
        let names: Vec<String> = self.files.borrow().keys().cloned().collect();
        assert_eq!(names, ["nr_kdamonds"]);
        assert!(self.is("nr_kdamonds", "0"));
    }
}

impl DamonFiles for FakeDamon {
    fn read(&self, name: &str) -> io::Result<String> {
        self.files.borrow().get(name).cloned().ok_or_else(|| error(libc::ENOENT))
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        self.written.borrow_mut().push((name.to_owned(), text.to_owned()));
        self.read(name)?;
        match (name, text) {
            ("nr_kdamonds", _) => self.count(text)?,
            ("0/state", _) => return self.command(text),
            ("0/contexts/nr_contexts", "1") => self.make_context(),
            ("0/contexts/0/targets/nr_targets", "1") => {
                self.set("0/contexts/0/targets/0/pid_target", "0");
            }
            ("0/contexts/0/schemes/nr_schemes", "1") => self.make_scheme(),
            _ => {}
        }
        self.set(name, text);
        Ok(())
    }

    fn list(&self, name: &str) -> io::Result<Vec<String>> {
        let files = self.files.borrow();
        let inside = files.keys().filter_map(|path| path.strip_prefix(name)?.strip_prefix('/'));
        let mut names: Vec<String> =
            inside.filter_map(|rest| rest.split('/').next().map(str::to_owned)).collect();
        names.dedup();
        if names.is_empty() { Err(error(libc::ENOENT)) } else { Ok(names) }
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from("/kdamonds").join(name)
    }
}

/// Returns a process that exits with its first call.
fn process() -> Arc<dyn Process> {
    let (fake, pid) = (FakeMachine::new(true), Pid::new(77).unwrap());
    fake.spawn(
        pid,
        FakeProcess { end_at_call: Some((1, Liveness::Exited)), ..FakeProcess::with_pages(&[]) },
    );
    fake.open_process(pid).unwrap()
}

/// Time for all snapshots of the fake, at most 100; the watch ends when none is left.
const LONG_ENOUGH: Duration = Duration::from_secs(60);

/// Watches until every snapshot was taken.
fn watched(kernel: &FakeDamon) -> Result<Vec<RegionAccess>> {
    let process = process();
    watch_with(kernel, &*process, LONG_ENOUGH, &|| kernel.snapshots.borrow().is_empty())
}

/// Goal: DAMON is configured before it is switched on; the snapshots are added up (20 samples each:
/// 1000 us / 50 us); nothing is left configured.
#[test]
fn looks_are_added_up() {
    // `stop` is polled before each snapshot, so the third is the last one taken.
    let kernel = FakeDamon::new([
        vec![(0, 8192, 20), (8192, 16384, 0)],
        vec![(0, 4096, 20), (4096, 16384, 1)],
        vec![(0, 4096, 19), (4096, 16384, 0)],
    ]);
    let part = |start, end, accesses| RegionAccess {
        range: Range::new(start, end),
        accesses,
        samples: 60, // three looks of 20
    };
    let seen = watched(&kernel).unwrap();
    // 20 + 20 + 19; 20 + 1 + 0; 0 + 1 + 0.
    assert_eq!(seen, [part(0, 4096, 59), part(4096, 8192, 21), part(8192, 16384, 1)]);
    kernel.assert_clear();
    let written = kernel.written.borrow();
    let at = |name: &str, text: &str| {
        let found = written.iter().position(|(n, t)| n.ends_with(name) && t == text);
        found.unwrap_or_else(|| panic!("{text} was never written to {name}: {written:?}"))
    };
    let on = at("0/state", "on");
    assert!(at("targets/0/pid_target", "77") < on && at("0/operations", "vaddr") < on);
    assert!(at("0/action", "stat") < on && at("nr_accesses/max", "18446744073709551615") < on);
    assert!(at("0/state", "off") < at("nr_kdamonds", "0"));
}

/// Goal: a stop before the first snapshot gives no regions, and nothing is left configured.
#[test]
fn a_stop_is_obeyed() {
    let kernel = FakeDamon::new([]);
    assert_eq!(watched(&kernel).unwrap(), []);
    kernel.assert_clear();
}

/// Goal: any failure of the configuration gives its reason and leaves nothing configured.
#[test]
fn failures_leave_nothing_behind() {
    let kernel = || FakeDamon::new([vec![]]);
    for (kernel, words) in [
        (FakeDamon { operations: "paddr", ..kernel() }, "CONFIG_DAMON_VADDR"),
        (FakeDamon { lists: false, ..kernel() }, "Linux 6.2"),
        (FakeDamon { on_fails: Some(libc::EBUSY), ..kernel() }, "somebody else uses it"),
        (FakeDamon { on_fails: Some(libc::EINVAL), ..kernel() }, "/kdamonds/0/state refuses"),
    ] {
        let error = watched(&kernel).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
        kernel.assert_clear();
    }
}

/// Goal: a process that exits during the watch is reported as gone, whatever the kernel's error,
/// and nothing is left configured.
#[test]
fn a_process_may_end() {
    for last in [0, 1] {
        let process = process();
        let looks = [vec![(0, 4096, 1)], vec![]];
        let kernel =
            FakeDamon { ends: Some((last, Arc::clone(&process))), ..FakeDamon::new(looks) };
        let ended = watch_with(&kernel, &*process, LONG_ENOUGH, &|| false);
        assert!(ended.unwrap_err().is_gone());
        assert_eq!(kernel.count_of("update_schemes_tried_regions"), last + 1);
        kernel.assert_clear();
    }
    let (process, kernel) = (process(), FakeDamon::new([]));
    process.move_pages(&MovePagesCall::new(false)).unwrap();
    let kernel = FakeDamon { on_fails: Some(libc::EINVAL), ..kernel };
    let ended = watch_with(&kernel, &*process, LONG_ENOUGH, &|| false);
    assert!(ended.unwrap_err().is_gone());
    kernel.assert_clear();
}

/// Goal: text that is not a number gives an error with its file, and nothing is left configured.
#[test]
fn odd_text_is_told() {
    let kernel = FakeDamon { aggregation_us: "soon", ..FakeDamon::new([]) };
    let error = watched(&kernel).unwrap_err().to_string();
    assert!(error.contains("intervals/aggr_us:1") && error.contains("found 'soon'"), "{error}");
    kernel.assert_clear();
}

/// Configures DAMON as another program does, or as one leaves it behind.
fn occupied(state: &str, mark: &str) -> FakeDamon {
    let kernel = FakeDamon::new([vec![(0, 4096, 3)]]);
    for (name, text) in [
        ("nr_kdamonds", "1"),
        ("0/contexts/nr_contexts", "1"),
        ("0/contexts/0/schemes/nr_schemes", "1"),
        ("0/contexts/0/schemes/0/watermarks/interval_us", mark),
    ] {
        kernel.write(name, text).unwrap();
    }
    kernel.set("0/state", state);
    kernel.written.borrow_mut().clear();
    kernel
}

/// The mark as the kernel shows it: the bytes of "nodeward" as one number.
const OURS: &str = "7957689453544305252";

/// Goal: a configuration in use is left alone; one that was left behind is replaced, by nodeward in
/// any state, by others only when switched off.
#[test]
fn who_uses_it_is_left_alone() {
    for (state, mark, is_free) in
        [("on", "0", false), ("off", "0", true), ("on", OURS, true), ("off", OURS, true)]
    {
        let kernel = occupied(state, mark);
        let answer = setup::check_unused(&kernel);
        assert_eq!(answer.is_ok(), is_free, "{state} {mark}: {answer:?}");
        assert_eq!(kernel.written.borrow().len(), 0, "looking changes nothing");
        if is_free {
            let process = process();
            watch_with(&kernel, &*process, Duration::ZERO, &|| false).unwrap();
            kernel.assert_clear();
        } else {
            assert!(answer.unwrap_err().reason.contains("1 of 1 in nr_kdamonds are on"));
        }
    }
}

/// Goal: cleaning up does not switch off a configuration that another program has switched on
/// meanwhile.
#[test]
fn clearing_up_spares_others() {
    let kernel = occupied("on", "0");
    let process = process();
    let refused = watch_with(&kernel, &*process, Duration::ZERO, &|| false).unwrap_err();
    assert!(matches!(refused, Error::Unsupported { .. }), "{refused:?}");
    assert!(kernel.is("0/state", "on") && kernel.count_of("off") == 0);
}

/// Returns a tree of real files.
fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let file = root.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    root
}

const COUNT: &str = "sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds";

/// Goal: the probe finds an obstacle from the files alone and gives the remedy.
#[test]
fn the_probe_reads_the_files() {
    let free = (COUNT, "0\n");
    let stat = |text| ("sys/module/damon_stat/parameters/enabled", text);
    let on = ("sys/kernel/mm/damon/admin/kdamonds/0/state", "on\n");
    for (files, words) in [
        (vec![], "CONFIG_DAMON_SYSFS"),
        (vec![(COUNT, "x\n")], "holds 'x'"),
        (vec![(COUNT, "1\n"), on], "another program uses it"),
        (vec![free, stat("Y\n")], "echo N > /sys/module/damon_stat/parameters/enabled"),
    ] {
        let error = probe(tree(&files).path()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    probe(tree(&[free]).path()).unwrap();
    probe(tree(&[free, stat("N\n")]).path()).unwrap();
}

/// Goal: two nodeward processes do not interfere, and the second one gets the reason.
#[test]
fn a_second_nodeward_is_refused() {
    let root = tree(&[(COUNT, "0\n")]);
    let file = fs::File::open(root.path().join(COUNT)).unwrap();
    file.lock().unwrap();
    let process = process();
    let refused = watch(root.path(), &*process, 0, &|| false).unwrap_err().to_string();
    assert!(refused.contains("another nodeward"), "{refused}");
    drop(file);
    check(root.path()).unwrap();
}
