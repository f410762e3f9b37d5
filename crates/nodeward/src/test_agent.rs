//! An agent for tests, which says what it is told to.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use serde_json::Value;
use tempfile::TempDir;

/// Starts an agent that hears one message on each connection and answers what is next. Returns its
/// socket, which the directory holds, and what it will have heard.
pub fn start(replies: Vec<String>) -> (TempDir, PathBuf, JoinHandle<Vec<Value>>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let answer = move |reply: String| {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        let mut heard = Vec::new();
        stream.read_until(0, &mut heard).unwrap();
        stream.get_mut().write_all(reply.as_bytes()).unwrap();
        serde_json::from_slice(&heard[..heard.len() - 1]).unwrap()
    };
    let serve = move || replies.into_iter().map(answer).collect();
    (folder, path, thread::spawn(serve))
}
