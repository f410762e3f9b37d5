//! `nodeward sim sweep` on the command line and on clusters.

use std::path::Path;
use std::process::{Command, Output};

use nodeward_linux::test_wait::wait_until;
use serde_json::Value;

use crate::outcome::{NODEWARD, assert_failure, success};

/// Two nodes of two CPUs; a program streams through the memory of the other node.
const SMALL: &str = include_str!("small.toml");

/// Six points: two latencies, with three seeds each.
const SIX: [&str; 4] = ["--grid", "machine.latency=80ns,160ns", "--seeds", "1-3"];

/// A directory with `small.toml`, in which commands run.
struct SweepDir(tempfile::TempDir);

impl SweepDir {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("small.toml"), SMALL).unwrap();
        Self(directory)
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(NODEWARD);
        command.current_dir(self.0.path()).args(["sim", "sweep", "--quiet"]).args(words);
        command.output().unwrap()
    }

    /// Runs a command that succeeds. Returns its output.
    fn done(&self, words: &[&str]) -> String {
        success(words, self.run(words))
    }

    fn six(&self, words: &[&str]) -> String {
        self.done(&[&["small.toml"], &SIX[..], words].concat())
    }

    fn assert_refused(&self, words: &[&str], told: &[&str]) {
        let output = self.run(words);
        assert_failure(words, &output, 2, told);
        assert!(output.stdout.is_empty(), "{words:?}");
    }
}

/// Goal: rows hold the same values as single runs of the points, in the order of points.
#[test]
fn rows_are_single_runs() {
    let place = SweepDir::new();
    let told: Value = serde_json::from_str(&place.six(&["--measure", "all", "--json"])).unwrap();
    assert_eq!((&told["schema"], &told["points"]), (&"nodeward.sim-sweep/1".into(), &6.into()));
    let rows = told["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    for (number, row) in rows.iter().enumerate() {
        let latency = ["80ns", "160ns"][number / 3];
        let seed = number % 3 + 1;
        assert_eq!((&row["point"], &row["machine.latency"]), (&number.into(), &latency.into()));
        let words = ["sim", "small.toml", "--json", "--seed", &seed.to_string(), "--set"];
        let single = Command::new(NODEWARD)
            .current_dir(place.0.path())
            .args(words)
            .arg(format!("machine.latency={latency}"))
            .output()
            .unwrap();
        let single: Value = serde_json::from_slice(&single.stdout).unwrap();
        let report = &single["report"];
        assert_eq!(row["trace_hash"], report["trace_hash"]);
        assert_eq!(row["stream.done"], report["workloads"][0]["done"]);
        assert_eq!(row["remote_lines"], report["counters"]["remote_lines"]);
    }
    assert!(rows[0]["stream.done"].as_u64() > rows[3]["stream.done"].as_u64(), "{told}");
}

/// Goal: the output does not depend on the number of threads.
#[test]
fn jobs_do_not_matter() {
    let place = SweepDir::new();
    for format in ["csv", "jsonl"] {
        let [one, four] = ["one", "four"].map(|name| format!("{name}.{format}"));
        place.six(&["--jobs", "1", "--measure", "all", "--out", &one]);
        place.six(&["--jobs", "4", "--measure", "all", "--out", &four]);
        assert_eq!(place.read(&one), place.read(&four));
    }
}

/// Goal: a file that was cut anywhere is completed to the same bytes.
#[test]
fn a_cut_file_is_completed() {
    let place = SweepDir::new();
    for name in ["all.csv", "all.jsonl"] {
        place.six(&["--out", name]);
        let all = place.read(name);
        let ends = all.match_indices('\n').map(|(end, _)| end + 1);
        // At the end of each line, inside of some, at the beginning; and complete.
        let cuts: Vec<_> = ends.chain((0..all.len()).step_by(all.len() / 8)).collect();
        assert!(cuts.len() > 12 && cuts.contains(&0) && cuts.contains(&all.len()));
        let cut_name = format!("cut-{name}");
        for cut in cuts {
            std::fs::write(place.path(&cut_name), &all[..cut]).unwrap();
            place.six(&["--out", &cut_name, "--resume"]);
            assert_eq!(place.read(&cut_name), all, "cut at {cut}");
        }
    }
    let told = place.six(&["--out", "all.csv", "--resume"]);
    assert!(told.contains("6 of 6 points, 6 of them before"), "{told}");
}

/// Goal: Ctrl-C leaves whole rows, says so, and exits as interrupted.
#[test]
fn an_interrupted_sweep_leaves_whole_rows() {
    let place = SweepDir::new();
    // The third takes minutes on any machine.
    let grid = ["small.toml", "--set", "sample=1s", "--grid", "time=1s,2s,86400s"];
    let mut child = Command::new(NODEWARD)
        .current_dir(place.0.path())
        .args(["sim", "sweep", "--jobs", "1", "--out", "a.csv"])
        .args(grid)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = || std::fs::read_to_string(place.path("a.csv")).map_or(0, |t| t.lines().count());
    wait_until("two short points are there", || {
        assert_eq!(child.try_wait().unwrap(), None, "the third takes long");
        lines() == 3
    });
    // A second sweep does not write between its rows.
    let words = [&grid[..], &["--out", "a.csv", "--resume"]].concat();
    place.assert_refused(&words, &["a.csv is being written by another sweep"]);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("interrupted, --resume goes on; 2 of 3 points"), "{told}");
    assert!(lines() == 3 && place.read("a.csv").ends_with('\n'));
}

/// Goal: shards are merged into the bytes of the whole, in any order of files.
#[test]
fn shards_make_the_whole() {
    let place = SweepDir::new();
    for format in ["csv", "jsonl"] {
        let name = |stem: &str| format!("{stem}.{format}");
        place.six(&["--out", &name("whole")]);
        let shards = ["4", "2", "1", "3"].map(name);
        for (shard, file) in ["4/4", "2/4", "1/4", "3/4"].iter().zip(&shards) {
            place.six(&["--shard", shard, "--out", file]);
        }
        let [a, b, c, d] = shards.each_ref().map(String::as_str);
        assert_eq!(place.done(&["--merge", a, b, c, d]), place.read(&name("whole")));
        place.done(&["--merge", a, b, c, d, "--out", &name("merged")]);
        assert_eq!(place.read(&name("merged")), place.read(&name("whole")));
        place.assert_refused(&["--merge", a, b, c], &["5 of 6 points are there; missing: 2; run"]);
        place.assert_refused(&["--merge", a, a], &["point 3 is there twice"]);
        place.assert_refused(&["--merge", a, "small.toml"], &["expected a name that ends in"]);
        place.assert_refused(&["--merge", a, b, c, d, "--out", &name("whole")], &["is there"]);
        place.done(&["small.toml", "--seeds", "1-4", "--shard", "3/4", "--out", &name("other")]);
        place.assert_refused(&["--merge", a, b, c, &name("other")], &[&name("other")]);
    }
}

/// Goal: a dry run reports the points without simulating them, and a shard reports its part.
#[test]
fn points_are_told() {
    let place = SweepDir::new();
    let text = place.six(&["--dry-run", "--shard", "2/4"]);
    let rows: Vec<Vec<_>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    // The second of four has 1 and 5: the second seed of the first latency, the last of the other.
    assert_eq!(rows[1], ["1", "2", "80ns"]);
    assert_eq!(rows[2], ["5", "3", "160ns"]);
    assert!(text.contains("2 of 6 points; figures: stream.done_per_s"), "{text}");
    let told: Value = serde_json::from_str(&place.six(&["--dry-run", "--json"])).unwrap();
    assert_eq!(told["points"].as_array().unwrap().len(), 6);
    assert_eq!(told["points"][5]["machine.latency"], "160ns");
}

/// Goal: a picture has a line for each combination of the keys after the first.
#[test]
fn a_picture() {
    let place = SweepDir::new();
    let grid = ["--grid", "machine.latency=80ns..160ns+40ns", "--grid", "machine.llc=1MiB,8MiB"];
    let words = [&["small.toml"], &grid[..], &["--plot", "p.svg", "--seeds", "1-2"]].concat();
    place.done(&words);
    let picture = place.read("p.svg");
    roxmltree::Document::parse(&picture).unwrap();
    for words in ["stream.done_per_s over machine.latency", "llc=1MiB", "llc=8MiB"] {
        assert!(picture.contains(words), "{words}");
    }
    let many = ["small.toml", "--grid", "time=5ms,10ms", "--grid", "machine.copiers=1..13"];
    place.assert_refused(&[&many[..], &["--plot", "q.svg"]].concat(), &["13 lines", "12 at most"]);
}

/// Goal: invalid input is reported before anything runs, and leaves no file.
#[test]
fn misuse() {
    let place = SweepDir::new();
    let table: [(&[&str], &[&str]); 14] = [
        (&[], &["SCENARIO"]),
        (&["nope"], &["nope: no such scenario"]),
        (&["small.toml", "--grid", "machine.latency"], &["KEY=VALUE"]),
        (&["small.toml", "--grid", "machine.latancy=1ns"], &["point 0", "did you mean 'latency'"]),
        (&["small.toml", "--grid", "machine.latency=1ns,x"], &["point 1", "machine.latency=x"]),
        (&["small.toml", "--grid", "time=1ms", "--grid", "time=2ms"], &["two lines of the grid"]),
        (&["small.toml", "--grid", "time=1ms", "--set", "time=2ms"], &["--grid and in --set"]),
        (&["small.toml", "--grid", "time=1ms", "--limit", "2ms"], &["--limit is the same"]),
        (&["small.toml", "--seeds", "1-100001"], &["too many points"]),
        (&["small.toml", "--measure", "beauty"], &["'beauty'", "stream.done_per_s"]),
        (&["small.toml", "--shard", "0/4"], &["1/N to N/N"]),
        (&["small.toml", "--out", "a.txt"], &["ends in .csv"]),
        (&["small.toml", "--resume"], &["--out"]),
        (&["small.toml", "--merge", "a.csv"], &["cannot be used with"]),
    ];
    for (words, told) in table {
        place.assert_refused(words, told);
    }
    assert_eq!(std::fs::read_dir(place.0.path()).unwrap().count(), 1, "small.toml alone");
}

/// Goal: files of other sweeps are not changed.
#[test]
fn other_files_are_left_alone() {
    let place = SweepDir::new();
    place.six(&["--out", "six.csv"]);
    let six = place.read("six.csv");
    let words = |more: &[&'static str]| [&["small.toml"], &SIX[..2], more].concat();
    place.assert_refused(
        &words(&["--out", "six.csv"]),
        &["six.csv is there; --resume completes it"],
    );
    let other: [&[&str]; 4] = [
        &["--seeds", "1-2"],
        &["--seeds", "1-3", "--limit", "10ms"],
        &["--seeds", "1-3", "--shard", "2/2"],
        &["--seeds", "1-3", "--measure", "events"],
    ];
    for more in other {
        let words = words(&[more, &["--out", "six.csv", "--resume"]].concat());
        place.assert_refused(&words, &["six.csv is not of this sweep"]);
    }
    std::fs::write(place.path("notes.csv"), "what I must not forget").unwrap();
    place
        .assert_refused(&words(&["--out", "notes.csv", "--resume"]), &["notes.csv is not of this"]);
    assert_eq!(place.read("notes.csv"), "what I must not forget");
    assert_eq!(place.read("six.csv"), six);
}

/// Goal: a file with the name of the verb can be given with its directory.
#[test]
fn a_scenario_called_sweep() {
    let place = SweepDir::new();
    std::fs::copy(place.path("small.toml"), place.path("sweep")).unwrap();
    let run = |name: &str| {
        let mut command = Command::new(NODEWARD);
        let words = ["sim", "--json", "--limit", "1ms", name];
        command.current_dir(place.0.path()).args(words).output().unwrap()
    };
    let told: Value = serde_json::from_slice(&run("./sweep").stdout).unwrap();
    assert_eq!(told["report"]["scenario"], "sweep");
}

/// Goal: the documented job script works: its parts, one of them killed and run again, are merged
/// into the output of a single command. Slurm itself is not needed; its variable is set.
#[test]
fn the_slurm_job_of_the_documentation() {
    let place = SweepDir::new();
    let document = include_str!("../../../../docs/reference/sweep.md");
    let job = document.split("```").find(|part| part.contains("#SBATCH --array=1-4")).unwrap();
    let (_, job) = job.split_once('\n').unwrap();
    std::fs::write(place.path("links.sh"), job).unwrap();
    let bash = |script: &str| {
        let programs = Path::new(NODEWARD).parent().unwrap().display();
        let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
        let mut command = Command::new("bash");
        command.current_dir(place.0.path()).env("PATH", path).args(["-euc", script]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    };
    bash("for i in 4 1 3 2; do SLURM_ARRAY_TASK_ID=$i SLURM_CPUS_PER_TASK=2 bash links.sh; done");
    let third = place.read("links.3.csv");
    std::fs::write(place.path("links.3.csv"), &third[..third.len() - 9]).unwrap();
    bash("SLURM_ARRAY_TASK_ID=3 SLURM_CPUS_PER_TASK=1 bash links.sh");
    assert_eq!(place.read("links.3.csv"), third);
    bash("nodeward sim sweep --merge links.[1-4].csv --out links.csv");
    bash(
        r#"eval "$(sed -n '/^sweep=(/,/)$/p' links.sh)"
        nodeward sim sweep "${sweep[@]}" --out whole.csv"#,
    );
    assert_eq!(place.read("links.csv"), place.read("whole.csv"));
    assert!(place.read("whole.csv").lines().count() > 4, "every part has a point");
}
