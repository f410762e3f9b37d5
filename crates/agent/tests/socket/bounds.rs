//! An agent bears clients that send too much, too little or nonsense, or do not read.

use std::io::Write as _;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nodeward_agent::client::Client;
use nodeward_agent::limits::{
    CLIENT_TIMEOUT, CONNECTIONS_MAX, CONNECTIONS_OF_USER_MAX, MESSAGE_BYTES_MAX, MoveLimits,
};
use nodeward_model::Pid;
use serde_json::json;

use crate::stage::{Conversation, Stage, Target, USER, is_root, order};

const DESCRIBE: &[u8] = b"{\"method\":\"io.nodeward.Agent.Describe\"}\0";

/// The name of the error of a reply.
fn error(talk: &mut Conversation) -> String {
    let reply = talk.reply().expect("a reply before the end");
    assert!(!reply["parameters"]["message"].as_str().unwrap().is_empty(), "{reply}");
    reply["error"].as_str().unwrap().to_owned()
}

fn is_served(stage: &Stage) {
    let mut talk = stage.connect();
    talk.send(DESCRIBE);
    assert!(talk.reply().unwrap()["parameters"].is_object());
}

/// Goal: no bytes end the agent, or keep it from others. What is no call ends its connection with
/// a reason.
#[test]
fn nonsense_is_refused() {
    let stage = Stage::new();
    let deep = [b"[".repeat(100_000), b"\0".to_vec()].concat();
    for bytes in [
        &b"\0"[..],
        b"x\0",
        b"{}\0",
        b"[]\0",
        b"{\"method\":1}\0",
        b"{\"method\":\"a\xff\"}\0",
        b"{\"method\":\"a\",\"parameters\":\0",
        &deep,
    ] {
        let mut talk = stage.connect();
        talk.send(bytes);
        assert_eq!(error(&mut talk), "io.nodeward.Agent.BadMessage", "{bytes:?}");
        assert!(talk.is_closed());
        is_served(&stage);
    }
}

/// Goal: of a message of 100 MiB the agent reads little more than the limit, and says why it ends.
#[test]
fn a_huge_message_is_refused() {
    let stage = Stage::new();
    let mut talk = stage.connect();
    let piece = vec![b' '; 1 << 20];
    let mut sent = 0;
    for _ in 0..100 {
        match talk.stream.get_mut().write(&piece) {
            Ok(bytes) => sent += bytes,
            Err(_) => break,
        }
    }
    // What the socket's own buffers hold comes on top: some 200 kB on usual kernels.
    assert!(sent < MESSAGE_BYTES_MAX + (8 << 20), "{sent} bytes were taken");
    assert_eq!(error(&mut talk), "io.nodeward.Agent.BadMessage");
    is_served(&stage);
}

/// Goal: ten thousand connections of root leave one more for nobody, each is told why it is
/// refused, and the agent serves those that it has; when they go, others come.
#[test]
fn ten_thousand_connections() {
    let stage = Stage::new();
    let mut held = Vec::new();
    let mut refused = 0;
    for _ in 0..10_000 {
        let stream = UnixStream::connect(stage.path()).unwrap();
        let mut talk = Conversation::new(stream);
        // Whoever is refused may not be able to send any more.
        let _ = talk.stream.get_mut().write_all(DESCRIBE);
        let reply = talk.reply().expect("an answer in any case");
        match reply.get("error") {
            None => held.push(talk),
            Some(error) => {
                assert_eq!(error, "io.nodeward.Agent.TooMany", "{reply}");
                refused += 1;
            }
        }
    }
    let root = rustix::process::geteuid().is_root();
    let expected = if root { CONNECTIONS_MAX } else { CONNECTIONS_OF_USER_MAX };
    assert_eq!((held.len(), refused), (expected, 10_000 - expected));
    held[0].send(DESCRIBE);
    assert!(held[0].reply().unwrap()["parameters"].is_object());
    drop(held);
    // They are gone when the agent has seen it.
    nodeward_linux::test_wait::wait_until("there is room again", || {
        let mut talk = stage.connect();
        let _ = talk.stream.get_mut().write_all(DESCRIBE);
        talk.reply().is_some_and(|reply| reply.get("error").is_none())
    });
}

/// Goal: a user other than root has his own limit, so that he takes no place of others.
#[test]
fn connections_of_one_user() {
    if !is_root() {
        return;
    }
    let stage = Stage::new();
    let many = CONNECTIONS_OF_USER_MAX + 10;
    let program = format!(
        "use Socket; $| = 1; $SIG{{PIPE}} = 'IGNORE'; for (1..{many}) {{ \
         socket($s[$_], AF_UNIX, SOCK_STREAM, 0); \
         connect($s[$_], sockaddr_un($ARGV[0])) or die; \
         syswrite($s[$_], '{{\"method\":\"io.nodeward.Agent.Describe\"}}' . \"\\0\"); \
         local $/ = \"\\0\"; $h = readline($s[$_]); $n++ if $h =~ /TooMany/ }} \
         print \"ready\\n\"; print \"$n\\n\"; $x = <STDIN>;"
    );
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::os::unix::process::CommandExt as _;
    let mut command = std::process::Command::new("perl");
    command.args(["-e", &program]).arg(stage.path()).uid(USER).gid(USER);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let Ok(child) = command.spawn() else {
        eprintln!("skipped: perl is missing, which speaks for another user");
        return;
    };
    let mut user = Target(child);
    let mut lines = BufReader::new(user.0.stdout.take().unwrap());
    let mut told = String::new();
    lines.read_line(&mut told).unwrap();
    lines.read_line(&mut told).unwrap();
    assert_eq!(told, "ready\n10\n");
    is_served(&stage);
    drop(user);
    let _ = lines.read_to_string(&mut told);
}

/// Goal: half a message is waited for, but not for ever; meanwhile others are served. So is a
/// client that does not read: it is left after the same time, and the agent keeps no more for it
/// than one reply.
#[test]
fn patience_ends() {
    let stage = Stage::new();
    let mut half = stage.connect();
    half.send(b"{\"method\":");
    let deaf = stage.connect();
    let mut ask = deaf.stream.get_ref().try_clone().unwrap();
    ask.set_nonblocking(true).unwrap();
    let text = b"{\"method\":\"org.varlink.service.GetInterfaceDescription\",\
                  \"parameters\":{\"interface\":\"io.nodeward.Moves\"}}\0";
    let began = Instant::now();
    // Until its own buffer is full, too: replies wait in the agent's, then requests in ours.
    while ask.write(text).is_ok() {
        assert!(began.elapsed() < Duration::from_secs(60), "it reads without bound");
    }
    is_served(&stage);
    assert_eq!(error(&mut half), "io.nodeward.Agent.BadMessage");
    assert!(began.elapsed() >= CLIENT_TIMEOUT.checked_sub(Duration::from_secs(1)).unwrap());
    assert!(half.is_closed());
    nodeward_linux::test_wait::wait_until("the deaf one is left", || {
        // Writing into a closed socket is an error other than "not now".
        ask.write(text).is_err_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    });
    is_served(&stage);
}

/// Goal: who has said all that he will say still hears the answer.
#[test]
fn half_closed_connections_are_answered() {
    let stage = Stage::new();
    stage.give_memory(Pid::of_this_process(), 3);
    let mut talk = stage.connect();
    talk.send(b"{\"method\":\"io.nodeward.Residency.Show\"}\0");
    talk.stream.get_ref().shutdown(Shutdown::Write).unwrap();
    assert!(talk.reply().unwrap()["parameters"].is_object());
    assert!(talk.is_closed());
}

/// Goal: a user has a limited number of moves at a time, and each has its part of the bytes; root
/// has no such limits.
#[test]
fn budgets_of_users() {
    let limits = MoveLimits { moves_of_user: 4, rate_of_user: Some(1000), ..MoveLimits::default() };
    assert_eq!(limits.rate_of_move(), Some(250), "1000 / 4");
    let unlimited = MoveLimits { moves_of_user: 4, rate_of_user: None, ..MoveLimits::default() };
    assert_eq!(unlimited.rate_of_move(), None);
    if !is_root() {
        return;
    }
    let none = MoveLimits { moves_of_user: 0, rate_of_user: None, ..MoveLimits::default() };
    let stage = Stage::with(none);
    let target = Target::of(USER, USER);
    stage.give_memory(target.pid(), 3);
    Client::connect(&stage.path()).unwrap().start(&order(&[target.pid()])).unwrap();
    let busy = json!("io.nodeward.Agent.Busy");
    let told = crate::authority::ask_as_user(&stage, "io.nodeward.Moves.Start", &order(&[]));
    assert!(told.is_none_or(|reply| reply["error"] == busy));
}
