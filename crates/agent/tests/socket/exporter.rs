//! The exporter: what it answers, with and without an agent, and what it bears.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use nodeward_agent::exporter::{Exporter, ExporterError};
use nodeward_linux::test_wait::{TIMEOUT, wait_until};

use crate::stage::Stage;
use crate::text_format::Metrics;

fn local() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Starts an exporter, which serves until the test program ends.
fn start(agent: &Path, tell: fn(&str)) -> SocketAddr {
    let exporter = Exporter::bind(local(), agent).unwrap();
    let address = exporter.address();
    thread::spawn(move || exporter.serve(tell));
    address
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

fn get(address: SocketAddr, path: &str) -> (String, String) {
    let mut stream = connect(address);
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    let (head, body) = told.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn is_up(address: SocketAddr) -> f64 {
    let (head, body) = get(address, "/metrics");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    Metrics::read(&body).value("nodeward_up", &[]).unwrap()
}

/// Goal: the metrics are those of the agent, and one more that says that it answered. Any other
/// path is not found.
#[test]
fn metrics_of_an_agent_are_handed_out() {
    let stage = Stage::new();
    let address = start(&stage.path(), |_| {});
    let (head, body) = get(address, "/metrics");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    let metrics = Metrics::read(&body);
    assert_eq!(metrics.value("nodeward_up", &[]), Some(1.0));
    assert!(metrics.types.contains_key("nodeward_build_info"), "{body}");
    assert!(get(address, "/").0.starts_with("HTTP/1.1 404 "));
}

static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Goal: without an agent the exporter goes on and says so, in its metrics each time and in a line
/// once; it finds the agent when it comes, and the next one after that has gone.
#[test]
fn an_agent_may_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("agent.sock");
    let address = start(&link, |words| TOLD.lock().unwrap().push(words.to_owned()));
    assert_eq!(is_up(address), 0.0);
    let stage = Stage::new();
    std::os::unix::fs::symlink(stage.path(), &link).unwrap();
    wait_until("the agent is found", || is_up(address) == 1.0);
    drop(stage);
    wait_until("it is missed", || is_up(address) == 0.0);
    let told = TOLD.lock().unwrap().clone();
    let [gone, back, gone_again] = &told[..] else { panic!("{told:?}") };
    assert!(gone.contains("no agent answers at") && gone_again == gone, "{told:?}");
    assert!(back.ends_with("agent.sock answers again"), "{told:?}");
}

/// Goal: what listens at the agent's path and answers nonsense counts as no agent.
#[test]
fn a_false_agent_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1000]);
            let _ = stream.write_all(b"{\"parameters\":{\"text\":7}}\0");
        }
    });
    assert_eq!(is_up(start(&path, |_| {})), 0.0);
}

/// Goal: clients that send nothing, half a request, or do not read their answer keep nobody out,
/// however many they are: the oldest of them are closed.
#[test]
fn slow_clients_keep_nobody_out() {
    let stage = Stage::new();
    let address = start(&stage.path(), |_| {});
    let mut slow: Vec<TcpStream> = (0..100).map(|_| connect(address)).collect();
    for (index, stream) in slow.iter_mut().enumerate() {
        // Those that are closed already cannot be written to.
        let _ = match index % 3 {
            0 => Ok(()),
            1 => stream.write_all(b"GET /met"),
            _ => stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n"),
        };
        assert_eq!(is_up(address), 1.0);
    }
    let mut rest = Vec::new();
    // What it has not read makes the end an error.
    let _ = slow[0].read_to_end(&mut rest);
    assert!(rest.is_empty(), "the oldest was closed");
}

/// Goal: two exporters at one address are one, and an error that says what to do.
#[test]
fn two_exporters() {
    let stage = Stage::new();
    let address = start(&stage.path(), |_| {});
    let error = Exporter::bind(address, &stage.path()).err().unwrap();
    assert!(matches!(error, ExporterError::InUse(at) if at == address));
    assert!(error.to_string().contains("choose another --listen"), "{error}");
    assert_eq!(is_up(address), 1.0);
}
