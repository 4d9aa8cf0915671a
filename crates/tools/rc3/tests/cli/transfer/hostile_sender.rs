//! Senders with a ticket that violate the protocol, against `rc3 recv`.

use std::{
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    time::Duration,
};

use rc3::transfer::{
    message::{self, Entry, FromReceiver, FromSender, Hello, Kind, Refusal, VERSION},
    ticket::Ticket,
    verdict::Verdict,
};
use rc3_net::{Connection, Endpoint, SendStream};

use super::{admission::silent, harness::*};

const END: FromSender = FromSender::ManifestEnd { dry_run: false, early: 0 };

/// A sender's end of the exchange with `rc3 recv`.
pub(crate) struct Intruder {
    connection: Connection,
    control: SendStream,
    replies: message::Messages<FromReceiver>,
    _endpoint: Endpoint,
}

impl Intruder {
    pub(crate) async fn meet(ticket: &str) -> Self {
        let ticket: Ticket = ticket.parse().expect("a ticket");
        let (endpoint, connection) = silent(&ticket, Ipv4Addr::LOCALHOST.into()).await.expect("a connection");
        let (mut control, replies) = connection.open_bi().await.expect("a conversation");
        let hello = Hello { version: VERSION, secret: ticket.secret().0 };
        control.write_all(&message::encode(&hello)).await.expect("said");
        Self { connection, control, replies: message::listen(replies), _endpoint: endpoint }
    }

    async fn say(&mut self, message: &FromSender) {
        let _ = self.control.write_all(&message::encode(message)).await;
    }

    async fn entry(&mut self, path: &[u8], kind: Kind) {
        self.say(&FromSender::Entry(Entry { path: path.to_owned(), kind })).await;
    }

    /// A whole manifest of files.
    pub(crate) async fn list(&mut self, files: &[(&[u8], u64)]) {
        for &(path, bytes) in files {
            self.entry(path, file(bytes)).await;
        }
        self.say(&END).await;
    }

    /// Says nothing more, until the receiver closes the connection.
    pub(crate) async fn closed(self) {
        self.connection.closed().await;
    }

    /// All that the receiver answers; this side closes after the last message.
    async fn replies(mut self) -> Vec<FromReceiver> {
        let mut all = Vec::new();
        while let Some(Ok(reply)) = self.replies.recv().await {
            let last = reply == FromReceiver::Finished;
            all.push(reply);
            if last {
                self.connection.close(0_u8.into(), b"");
            }
        }
        all
    }

    /// The receiver's last message.
    async fn verdict(self) -> Option<FromReceiver> {
        self.replies().await.pop()
    }
}

fn file(bytes: u64) -> Kind {
    Kind::File { bytes, mode: Some(0o7777), modified: None, holes: Vec::new() }
}

const DIRECTORY: Kind = Kind::Directory { mode: Some(0o7777), modified: None };

/// A receiver into a directory next to a file that must stay untouched, and a runtime for attackers.
fn stronghold(flags: &[&str]) -> (tempfile::TempDir, PathBuf, Receiver, tokio::runtime::Runtime) {
    let root = tempfile::tempdir().unwrap();
    let inside = root.path().join("inside");
    fs::create_dir(&inside).unwrap();
    fs::write(root.path().join("outside"), b"precious").unwrap();
    let receiver = Receiver::start(&inside, flags);
    (root, inside, receiver, tokio::runtime::Runtime::new().unwrap())
}

fn still_fine(root: &Path, inside: &Path, receiver: Receiver) {
    assert_eq!(fs::read(root.join("outside")).unwrap(), b"precious");
    assert_eq!(fs::read_dir(root).unwrap().count(), 2);
    let good = tempfile::tempdir().unwrap();
    fs::write(good.path().join("good"), b"good").unwrap();
    let output = send(&receiver.ticket, &[&good.path().join("good")], &[]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(receiver.finish().0, Some(0));
    assert_eq!(fs::read(inside.join("good")).unwrap(), b"good");
}

#[test]
fn hostile_manifests_are_refused_before_anything_is_made() {
    let (root, inside, receiver, runtime) = stronghold(&["--force"]);
    let long = [b'n'; 256];
    let manifests: [&[(&[u8], Kind)]; 12] = [
        &[(b"../outside", file(4))],
        &[(b"/etc/passwd", file(4))],
        &[(b"a", DIRECTORY), (b"a/../../outside", file(4))],
        &[(b"a//b", file(4))],
        &[(b"", DIRECTORY)],
        &[(b"a\0b", file(4))],
        &[(&long, file(4))],
        &[(b"a", file(4)), (b"a", file(4))],
        // A file in place of a directory.
        &[(b"a", file(4)), (b"a/b", file(4))],
        &[(b"a/b", file(4))],
        // What another run may have left.
        &[(b".a.0123abcd-record.rc3-part", file(4))],
        &[(b"a", file(1 << 63)), (b"b", file(1 << 63))],
    ];
    for manifest in manifests {
        let verdict = runtime.block_on(async {
            let mut intruder = Intruder::meet(&receiver.ticket).await;
            intruder.entry(b"first", DIRECTORY).await;
            for (path, kind) in manifest {
                intruder.entry(path, kind.clone()).await;
            }
            intruder.say(&END).await;
            intruder.verdict().await
        });
        let manifest_refused =
            matches!(verdict, Some(FromReceiver::Refused { refusal: Refusal::Manifest, .. }));
        assert!(manifest_refused, "{manifest:?}: {verdict:?}");
        assert!(names(&inside).is_empty(), "{manifest:?}: {:?}", names(&inside));
    }
    still_fine(root.path(), &inside, receiver);
}

#[test]
fn answers_may_overtake_what_is_said_of_files_that_do_not_wait() {
    let to = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        fs::write(to.path().join(name), content(10)).unwrap();
    }
    let receiver = Receiver::start(to.path(), &[]);
    let replies = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut intruder = Intruder::meet(&receiver.ticket).await;
        intruder.entry(b"a", file(10)).await;
        intruder.entry(b"b", file(10)).await;
        intruder.say(&FromSender::ManifestEnd { dry_run: false, early: 1 }).await;
        let hash = *blake3::hash(&content(10)).as_bytes();
        for entry in [1, 0] {
            intruder.say(&FromSender::Hash { entry, hash }).await;
        }
        // The stream that was promised comes although it is not wanted.
        let mut stream = intruder.connection.open_uni().await.expect("a stream");
        let _ = stream.write_all(&content(10)).await;
        intruder.replies().await
    });
    let same = |entry| FromReceiver::Settled { entry, verdict: Verdict::Same };
    let compare = FromReceiver::Compare { entry: 1 };
    let expected = [compare, same(0), same(1), FromReceiver::Accepted, FromReceiver::Finished];
    assert_eq!(replies, expected);
    assert_eq!(receiver.finish().0, Some(0));
}

#[test]
fn a_version_that_is_void_leaves_nothing_even_if_its_stream_breaks_off_last() {
    let to = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(to.path(), &[]);
    let replies = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut intruder = Intruder::meet(&receiver.ticket).await;
        intruder.list(&[(b"f", 4_000_000)]).await;
        let mut void = intruder.connection.open_uni().await.expect("a stream");
        void.write_all(&content(3_000_000)).await.expect("written");
        wait_for_bytes(to.path(), 2_500_000);
        intruder.say(&FromSender::Again { entry: 0, kind: file(10) }).await;
        let mut stream = intruder.connection.open_uni().await.expect("a stream");
        stream.write_all(&content(10)).await.expect("written");
        stream.finish().expect("finished");
        let hash = *blake3::hash(&content(10)).as_bytes();
        intruder.say(&FromSender::Hash { entry: 1, hash }).await;
        let placed = FromReceiver::Settled { entry: 1, verdict: Verdict::Placed };
        while intruder.replies.recv().await.expect("a reply").expect("a reply") != placed {}
        void.reset(1_u8.into()).expect("reset");
        intruder.replies().await
    });
    assert_eq!(replies, [FromReceiver::Finished]);
    assert_eq!((receiver.finish().0, names(to.path())), (Some(0), vec!["f".to_owned()]));
}

#[test]
fn lengths_that_are_lies_cost_nothing_and_leave_nothing() {
    let (root, inside, receiver, runtime) = stronghold(&[]);
    // Fewer bytes than announced, and more.
    for (announced, bytes) in [(1 << 62, 10), (20_000_000, 10), (5, 1_000_000)] {
        let verdict = runtime.block_on(async {
            let mut intruder = Intruder::meet(&receiver.ticket).await;
            intruder.entry(b"lie", file(announced)).await;
            intruder.say(&END).await;
            let mut stream = intruder.connection.open_uni().await.expect("a stream");
            let _ = stream.write_all(&content(bytes)).await;
            let _ = stream.finish();
            let hash = *blake3::hash(&content(bytes)).as_bytes();
            intruder.say(&FromSender::Hash { entry: 0, hash }).await;
            intruder.verdict().await
        });
        let refused = match verdict {
            // No disk has as much.
            Some(FromReceiver::Refused { refusal: Refusal::Storage, .. }) => announced == 1 << 62,
            Some(FromReceiver::Refused { refusal: Refusal::Manifest, .. }) => announced != 1 << 62,
            _ => false,
        };
        assert!(refused, "{announced}: {verdict:?}");
        assert!(!inside.join("lie").exists());
        assert!(arrived_bytes(&inside) <= 10, "{}", arrived_bytes(&inside));
    }
    for name in names(&inside) {
        fs::remove_file(inside.join(name)).unwrap();
    }
    still_fine(root.path(), &inside, receiver);
}

#[test]
fn senders_learn_nothing_of_files_but_whether_they_have_the_same() {
    for (name, bytes, hash) in
        [(&b"secret"[..], 16, [7; 32]), (b"link", 8, *blake3::hash(b"precious").as_bytes())]
    {
        let (root, inside, receiver, runtime) = stronghold(&[]);
        fs::write(inside.join("secret"), content(16)).unwrap();
        std::os::unix::fs::symlink("../outside", inside.join("link")).unwrap();
        let replies = runtime.block_on(async {
            let mut intruder = Intruder::meet(&receiver.ticket).await;
            intruder.entry(name, file(bytes)).await;
            intruder.say(&END).await;
            intruder.say(&FromSender::Hash { entry: 0, hash }).await;
            intruder.replies().await
        });
        let settled = |verdict| FromReceiver::Settled { entry: 0, verdict };
        assert!(replies.contains(&settled(Verdict::Conflict)) && !replies.contains(&settled(Verdict::Same)));
        assert_eq!(fs::read(root.path().join("outside")).unwrap(), b"precious");
        drop(receiver);
    }
}

/// Links that lead out by themselves, by others of the same manifest, or by what exists.
#[test]
fn links_of_hostile_senders_lead_nowhere() {
    let (root, inside, receiver, runtime) = stronghold(&["--force", "--keep"]);
    fs::create_dir(inside.join("deep")).unwrap();
    std::os::unix::fs::symlink("..", inside.join("out")).unwrap();
    std::os::unix::fs::symlink("deep", inside.join("short")).unwrap();
    let link = |target: &[u8]| Kind::Link { target: target.to_vec(), modified: None };
    let manifests: [&[(&[u8], Kind)]; 8] = [
        &[(b"l", link(b"../outside"))],
        &[(b"l", link(b"/etc/passwd"))],
        &[(b"d", DIRECTORY), (b"d/a", link(b"..")), (b"l", link(b"d/a/../.."))],
        &[(b"d", DIRECTORY), (b"d/l", link(b"../../outside"))],
        // Through what exists.
        &[(b"out", DIRECTORY), (b"out/outside", file(0))],
        &[(b"out", DIRECTORY), (b"out/l", link(b"x"))],
        // A file below a link of the same manifest.
        &[(b"l", link(b"out")), (b"l/x", file(0))],
        &[(b"l", DIRECTORY), (b"l", link(b"out"))],
    ];
    for manifest in manifests {
        runtime.block_on(async {
            let mut intruder = Intruder::meet(&receiver.ticket).await;
            for (path, kind) in manifest {
                intruder.entry(path, kind.clone()).await;
            }
            intruder.say(&END).await;
            for entry in 0..2 {
                intruder.say(&FromSender::Hash { entry, hash: *blake3::hash(b"").as_bytes() }).await;
            }
            intruder.replies().await
        });
        assert_eq!(fs::read(root.path().join("outside")).unwrap(), b"precious", "{manifest:?}");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2, "{manifest:?}");
        let resolved = fs::canonicalize(inside.join("l"));
        assert!(resolved.is_err() || resolved.unwrap().starts_with(&inside), "{manifest:?}");
        let _ = fs::remove_dir_all(inside.join("d"));
        let _ = fs::remove_file(inside.join("l"));
    }
    // Two transfers: a link that stays inside, and a file through it.
    for kind in [link(b"deep"), DIRECTORY] {
        runtime.block_on(async {
            let mut intruder = Intruder::meet(&receiver.ticket).await;
            let directory = kind == DIRECTORY;
            intruder.entry(b"l", kind).await;
            if directory {
                intruder.entry(b"l/x", link(b"../outside")).await;
            }
            intruder.say(&END).await;
            intruder.replies().await
        });
    }
    assert!(names(&inside.join("deep")).is_empty(), "a link that is made through a link");
}

#[test]
fn messages_out_of_turn_end_the_conversation_only() {
    let (root, inside, receiver, runtime) = stronghold(&[]);
    let hash = |entry| FromSender::Hash { entry, hash: [7; 32] };
    for messages in [vec![hash(0)], vec![END, hash(1)], vec![END, hash(0), hash(0)], vec![END, END]] {
        runtime.block_on(async {
            let mut intruder = Intruder::meet(&receiver.ticket).await;
            intruder.entry(b"a", file(4)).await;
            for message in &messages {
                intruder.say(message).await;
            }
            let ended = tokio::time::timeout(Duration::from_secs(10), intruder.connection.closed()).await;
            assert!(ended.is_ok(), "{messages:?}");
        });
        assert!(!inside.join("a").exists());
    }
    still_fine(root.path(), &inside, receiver);
}
