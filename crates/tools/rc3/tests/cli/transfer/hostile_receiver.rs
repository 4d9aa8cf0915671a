//! Receivers that violate the protocol, against `rc3 send`.

use std::{
    fs,
    future::pending,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use rc3::error::{Error, ErrorKind};
use rc3::transfer::{
    identity::Identity,
    manifest::Selection,
    meet::Settings,
    message::{self, ALPN, FromReceiver, FromSender, Hello, Refusal, Work},
    progress::{Reporter, Style},
    send::{Content, SendJob, send_until},
    ticket::{Secret, Ticket},
    verdict::Verdict,
};
use rc3_net::{Connection, Endpoint, RecvStream, RlpMode, SendStream, ServerConfig, TransportConfig};
use tokio::io::AsyncWriteExt;

use super::harness::*;

/// A receiver's end after the manifest.
struct Liar {
    connection: Connection,
    control: SendStream,
    messages: message::Messages<FromSender>,
}

impl Liar {
    async fn meet(connection: Connection) -> Self {
        let (control, mut messages): (SendStream, RecvStream) =
            connection.accept_bi().await.expect("a conversation");
        message::read::<Hello>(&mut messages).await.expect("the secret");
        let mut messages = message::listen(messages);
        loop {
            match messages.recv().await.expect("a message").expect("a message") {
                FromSender::ManifestEnd { .. } => return Self { connection, control, messages },
                FromSender::Entry(_) => {}
                other => panic!("{other:?} in the manifest"),
            }
        }
    }

    /// Sends a message, unless the sender has closed.
    async fn say(&mut self, message: &FromReceiver) -> bool {
        self.control.write_all(&message::encode(message)).await.is_ok()
    }
}

/// The error of a sender of two files (100 bytes, and 3 MB) to this receiver.
fn outcome<F>(patience: Duration, lies: impl FnOnce(Liar) -> F + Send + 'static) -> Error
where
    F: Future<Output = Liar> + Send,
{
    let from = tempfile::tempdir().unwrap();
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    fs::write(top.join("a"), content(100)).unwrap();
    fs::write(top.join("b"), content(3_000_000)).unwrap();
    let receiver = |connection| async {
        // It stays, whatever the sender does.
        lies(Liar::meet(connection).await).await.connection.closed().await;
    };
    sent_to(&top, TransportConfig::default(), patience, receiver).expect_err("a liar is believed")
}

/// The result of sending to a receiver with these windows.
fn sent_to<F>(
    top: &Path,
    transport: TransportConfig,
    patience: Duration,
    receiver: impl FnOnce(Connection) -> F + Send + 'static,
) -> Result<(), Error>
where
    F: Future<Output = ()> + Send,
{
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let identity = Identity::generate().unwrap();
        let mut config = ServerConfig::with_crypto(Arc::new(identity.server(ALPN).unwrap()));
        config.transport_config(Arc::new(transport));
        let endpoint = Endpoint::server(config, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let port = endpoint.local_addr().unwrap().port();
        let ticket = Ticket::new("127.0.0.1", port, identity.fingerprint(), Secret([7; 16])).unwrap();
        let receiver = tokio::spawn(async move {
            receiver(endpoint.accept().await.expect("a sender").await.expect("a connection")).await;
        });
        let content = Content::Paths(vec![top.to_owned()]);
        let settings = Settings { patience, ..Settings::default() };
        let job = SendJob {
            content,
            selection: Selection::default(),
            invitation: ticket.into(),
            dry_run: false,
            rate_limit: None,
            settings,
        };
        let mut reporter = Reporter::new(Style::Quiet, "sending");
        let sent =
            tokio::time::timeout(Duration::from_secs(30), send_until(pending(), job, &mut reporter)).await;
        let sent = sent.expect("the sender comes to an end");
        tokio::time::timeout(Duration::from_secs(10), receiver)
            .await
            .expect("the sender closes")
            .expect("no panic");
        sent
    })
}

const LONG: Duration = Duration::from_secs(20);

/// Sends some messages and then waits.
fn outcome_of(messages: Vec<FromReceiver>) -> Error {
    outcome(LONG, |mut liar| async move {
        for message in &messages {
            liar.say(message).await;
        }
        liar
    })
}

fn missing(entry: u32, gaps: &[(u64, u64)]) -> FromReceiver {
    FromReceiver::Missing { entry, gaps: gaps.to_vec() }
}

fn settled(entry: u32, verdict: Verdict) -> FromReceiver {
    FromReceiver::Settled { entry, verdict }
}

/// The entries are a directory and two files.
#[test]
fn receivers_that_contradict_themselves_are_left() {
    use FromReceiver::{Accepted, Compare, Finished};
    let same = |entry| settled(entry, Verdict::Same);
    let placed = |entry| settled(entry, Verdict::Placed);
    let conflict = |entry| settled(entry, Verdict::Conflict);
    let all = [
        // Ranges outside the file, out of order, of an unknown file, twice.
        vec![missing(1, &[(0, 101)])],
        vec![missing(1, &[(u64::MAX - 1, u64::MAX)])],
        vec![missing(2, &[(50, 60), (10, 20)])],
        vec![missing(3, &[(0, 1)])],
        vec![missing(0, &[])],
        vec![missing(u32::MAX, &[])],
        vec![missing(2, &[(0, 5)]), missing(2, &[(0, 6)])],
        vec![missing(1, &[]), missing(1, &[])],
        // The same twice, or a part of it.
        vec![same(0)],
        vec![same(1), same(1)],
        vec![Compare { entry: 1 }, same(1), missing(1, &[(0, 1)])],
        vec![Compare { entry: 1 }, missing(1, &[(0, 1)]), same(1)],
        vec![Compare { entry: 1 }, Compare { entry: 1 }],
        vec![Compare { entry: 0 }],
        vec![Compare { entry: 3 }],
        // Entries that are unknown, or settled already.
        vec![conflict(3)],
        vec![conflict(1), conflict(1)],
        vec![conflict(1), missing(1, &[(0, 1)])],
        vec![missing(1, &[(0, 1)]), conflict(1)],
        vec![Compare { entry: 1 }, same(1), conflict(1)],
        vec![conflict(1), Accepted, placed(1)],
        vec![Accepted, conflict(7)],
        vec![Accepted, conflict(1), conflict(1)],
        vec![Accepted, same(1)],
        // In place before it was sent, twice, or never.
        vec![placed(1)],
        vec![Accepted, placed(7)],
        vec![Accepted, placed(0)],
        vec![Accepted, Finished],
        vec![Finished],
        vec![Accepted, Accepted],
        vec![Accepted, missing(1, &[(0, 1)])],
        vec![Accepted, Compare { entry: 1 }],
    ];
    let check = |lies: &Vec<FromReceiver>| {
        let error = outcome_of(lies.clone());
        assert!(error.kind() == ErrorKind::Protocol, "{lies:?}: {error}");
        assert!(error.to_string().lines().count() == 1, "{error}");
    };
    // Each sender takes a moment to leave, so a few do it side by side.
    std::thread::scope(|scope| {
        for some in all.chunks(all.len().div_ceil(4)) {
            scope.spawn(move || some.iter().for_each(check));
        }
    });
}

#[test]
fn done_without_every_file_is_no_success() {
    let error = outcome(LONG, |mut liar| async move {
        liar.say(&FromReceiver::Accepted).await;
        let mut announced = Vec::new();
        while announced.len() < 2 {
            let mut stream = liar.connection.accept_uni().await.expect("a file");
            while stream.read_chunk(1 << 16, true).await.expect("bytes").is_some() {}
            let Some(Ok(FromSender::Hash { entry, .. })) = liar.messages.recv().await else {
                panic!("no end of a file")
            };
            announced.push(entry);
        }
        liar.say(&settled(announced[0], Verdict::Placed)).await;
        liar.say(&settled(announced[0], Verdict::Placed)).await;
        liar
    });
    assert!(error.kind() == ErrorKind::Protocol, "{error}");
}

#[test]
fn receivers_that_do_nothing_are_given_up() {
    let patience = Duration::from_secs(1);
    for accepts in [false, true] {
        let began = Instant::now();
        let error = outcome(patience, move |mut liar| async move {
            if accepts {
                // And never reads.
                liar.say(&FromReceiver::Accepted).await;
            }
            liar
        });
        assert!(error.kind() == ErrorKind::Stalled, "{error}");
        assert_eq!(error.to_string(), "no progress for 1 s");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
}

#[test]
fn floods_of_messages_end_in_an_error() {
    for flood in [
        FromReceiver::Working(Work::Storing),
        FromReceiver::Missing { entry: 2, gaps: (0..128).map(|at| (3 * at, 3 * at + 1)).collect() },
        FromReceiver::Compare { entry: 2 },
        settled(1, Verdict::Name),
    ] {
        let error = outcome(LONG, |mut liar| async move {
            while liar.say(&flood).await {}
            liar
        });
        assert!(error.kind() == ErrorKind::Protocol, "{error}");
    }
}

#[test]
fn huge_and_damaged_messages_end_in_an_error() {
    let huge = [0x7f, 0xff, 0xff, 0xff].repeat(1000);
    let damaged = [0, 0, 0, 3, 0xff, 0xff, 0xff].repeat(10);
    // Truncated in the middle.
    for bytes in [huge, damaged] {
        let error = outcome(LONG, |mut liar| async move {
            let _ = liar.control.write_all(&bytes).await;
            liar
        });
        assert!(error.kind() == ErrorKind::Protocol, "{error}");
    }
    let error = outcome(LONG, |mut liar| async move {
        let _ = liar.control.write_all(&[0, 0, 0, 200, 1]).await;
        let _ = liar.control.shutdown().await;
        liar
    });
    assert!(error.kind() == ErrorKind::Lost, "{error}");
}

#[test]
fn words_of_a_receiver_cannot_steer_a_terminal() {
    let reason = "\u{1b}[2J\u{202e}all is well\r\nrc3: done".to_owned();
    for lie in [
        Some(FromReceiver::Refused { refusal: Refusal::Manifest, reason: reason.clone() }),
        Some(FromReceiver::Refused { refusal: Refusal::Storage, reason: reason.clone() }),
        None,
    ] {
        let reason = reason.clone();
        let error = outcome(LONG, |mut liar| async move {
            match lie {
                Some(lie) => drop(liar.say(&lie).await),
                // The codes of a wrong secret.
                None => liar.connection.close(4_u8.into(), reason.as_bytes()),
            }
            liar
        });
        let shown = error.to_string();
        assert!(!shown.contains(|c: char| c.is_control() || c == '\u{202e}'), "{shown:?}");
    }
}

#[test]
fn streams_that_a_receiver_opens_are_refused() {
    let error = outcome(Duration::from_secs(2), |liar| async move {
        let opened = tokio::time::timeout(Duration::from_millis(300), liar.connection.open_uni()).await;
        assert!(opened.is_err(), "a receiver may open a stream");
        liar
    });
    assert!(error.kind() == ErrorKind::Stalled, "{error}");
}

#[test]
fn receivers_that_allow_no_conversation_are_given_up() {
    let from = tempfile::tempdir().unwrap();
    let mut mute = TransportConfig::default();
    mute.max_concurrent_bidi_streams(0_u8.into());
    let file = from.path().join("file");
    fs::write(&file, b"x").unwrap();
    let receiver = |connection: Connection| async move { drop(connection.closed().await) };
    let error = sent_to(&file, mute, Duration::from_secs(1), receiver).unwrap_err();
    assert!(error.kind() == ErrorKind::Stalled, "{error}");
}

/// An honest receiver that is busy for a while, with a manifest larger than its windows.
#[test]
fn signs_of_life_do_not_cut_a_manifest_short() {
    let from = tempfile::tempdir().unwrap();
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    // More than a sender buffers for a peer that reads nothing.
    for number in 0..25_000 {
        fs::write(top.join(format!("{number:0250}")), b"").unwrap();
    }
    let mut small = TransportConfig::default();
    small.rlp(RlpMode::Off).receive_window((1_u32 << 16).into()).stream_receive_window((1_u32 << 16).into());
    let receiver = |connection: Connection| async move {
        let (mut control, messages) = connection.accept_bi().await.expect("a conversation");
        let working = message::encode(&FromReceiver::Working(Work::AnotherTransfer));
        control.write_all(&working).await.expect("said");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut messages = messages;
        message::read::<Hello>(&mut messages).await.expect("the secret");
        let mut messages = message::listen(messages);
        let mut entries = 0;
        loop {
            match messages.recv().await.expect("a message").expect("a message") {
                FromSender::Entry(_) => entries += 1,
                FromSender::ManifestEnd { .. } => break,
                _ => {}
            }
        }
        assert_eq!(entries, 25_001);
        connection.close(0_u8.into(), b"has seen enough");
    };
    let error = sent_to(&top, small, LONG, receiver).unwrap_err();
    assert!(error.to_string().contains("has seen enough"), "{error}");
}
