//! A receiver lies to a sender.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use proptest::{strategy::Strategy, strategy::ValueTree, test_runner::TestRunner};
use rc3_net::{Congestion, Connection, Endpoint, RlpMode, ServerConfig};
use tokio::time::timeout;

use super::{
    super::{
        IDLE_TIMEOUT,
        error::TransferError,
        identity::Identity,
        manifest::Selection,
        message::{self, ALPN, Change, Fault, FromReceiver, FromSender, Refusal, Skip, Work},
        network::Network,
        pipe::{PipeJob, send_pipe},
        progress::{Reporter, Style},
        send::{PATIENCE, SendJob, send_until},
        ticket::{Secret, Ticket},
    },
    FILES, reporter, run,
};

/// Time for a message that a sender sends at once.
const SOON: Duration = Duration::from_millis(300);

/// What the receiver does.
#[derive(Debug, Clone)]
enum Step {
    Say(FromReceiver),
    /// Hears until the sender has sent this many files completely, or has left.
    Hear(usize),
}

fn messages() -> Vec<FromReceiver> {
    let reason = "\u{1b}[2J".to_owned();
    let mut all = vec![FromReceiver::Accepted, FromReceiver::Finished];
    let refusals =
        [Refusal::Unauthorised, Refusal::Version, Refusal::Manifest, Refusal::Storage, Refusal::Exists];
    all.extend(refusals.map(|refusal| FromReceiver::Refused { refusal, reason: reason.clone() }));
    all.extend([Work::AnotherTransfer, Work::Comparing, Work::Storing].map(FromReceiver::Working));
    let faults = [
        Fault::NotVerified,
        Fault::Exists,
        Fault::Name,
        Fault::Storage,
        Fault::Refused,
        Fault::Shared,
        Fault::Omitted,
    ];
    let skips = [
        Skip::SameTime,
        Skip::SameLink,
        Skip::Conflict,
        Skip::Name,
        Skip::Outside,
        Skip::Shared,
        Skip::Refused(reason.clone()),
    ];
    for file in FILES {
        for gaps in [&[][..], &[(0, 1)], &[(2, 1)], &[(0, u64::MAX)]] {
            all.push(FromReceiver::Missing { file, gaps: gaps.to_vec() });
        }
        all.extend([
            FromReceiver::FileDone { file },
            FromReceiver::Compare { file },
            FromReceiver::Have { file },
        ]);
        let failed = |fault| FromReceiver::FileFailed { file, fault, reason: reason.clone() };
        all.extend(faults.map(failed));
        all.extend(skips.clone().map(|skip| FromReceiver::Skip { entry: file, skip }));
        all.extend([Change::Replace, Change::KeepBoth].map(|change| FromReceiver::Would { file, change }));
    }
    all
}

/// Ways into every state of a sender of two files.
fn states() -> Vec<Vec<Step>> {
    use FromReceiver::{Accepted, Compare, FileDone, Have, Missing, Skip as Skipped};
    let say = |message| Step::Say(message);
    vec![
        vec![],
        vec![say(Compare { file: 0 })],
        vec![say(Compare { file: 0 }), say(Have { file: 0 })],
        vec![say(Missing { file: 1, gaps: vec![(5, 9)] })],
        vec![say(Skipped { entry: 1, skip: Skip::Conflict })],
        vec![say(Accepted)],
        vec![say(Skipped { entry: 1, skip: Skip::Conflict }), say(Accepted), Step::Hear(1)],
        vec![say(Accepted), Step::Hear(2)],
        vec![say(Accepted), Step::Hear(2), say(FileDone { file: 0 })],
    ]
}

/// A sender of two files or of a pipe, and a receiver that does this.
async fn converse(pipe: bool, steps: Vec<Step>) {
    let identity = Identity::generate().unwrap();
    let config = ServerConfig::with_crypto(Arc::new(identity.server(ALPN).unwrap()));
    let endpoint = Endpoint::server(config, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let port = endpoint.local_addr().unwrap().port();
    let ticket = Ticket::new("127.0.0.1", port, identity.fingerprint(), Secret([7; 16])).unwrap();
    let from = tempfile::tempdir().unwrap();
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    fs::write(top.join("a"), [7; 100]).unwrap();
    fs::write(top.join("b"), [7; 5000]).unwrap();
    let job = SendJob {
        paths: if pipe { Vec::new() } else { vec![top] },
        ticket,
        selection: Selection::default(),
        dry_run: false,
        rate_limit: None,
        rlp: RlpMode::Guard,
        congestion: Congestion::Cubic,
        mtu: None,
        network: Network::default(),
        qlog: None,
        idle_timeout: IDLE_TIMEOUT,
        patience: PATIENCE,
    };
    let mut reporter = reporter();
    let sending = async {
        if pipe {
            let job = PipeJob { send: job, name: Some("asked".to_owned()) };
            send_pipe(job, &[7; 5000][..], &mut Reporter::new(Style::Quiet, "")).await
        } else {
            send_until(std::future::pending(), job, &mut reporter).await
        }
    };
    let receiving = async {
        let connection = endpoint.accept().await.unwrap().await.unwrap();
        act(connection, &steps).await
    };
    let (outcome, ()) = tokio::join!(sending, receiving);
    let context = format!("pipe {pipe}: {steps:?}: {outcome:?}");
    assert!(!context.contains("panicked"), "{context}");
    if let Err(TransferError::Local { .. }) = outcome {
        panic!("a background task failed: {context}");
    }
    let says =
        |wanted: &FromReceiver| steps.iter().any(|step| matches!(step, Step::Say(said) if said == wanted));
    let settled = |file| {
        let (done, have) = (FromReceiver::FileDone { file }, FromReceiver::Have { file });
        let same = |skip| says(&FromReceiver::Skip { entry: file + 1, skip });
        says(&done) || says(&have) || same(Skip::SameTime) || same(Skip::SameLink)
    };
    let all_there = pipe || (settled(0) && settled(1));
    assert!(outcome.is_err() || (says(&FromReceiver::Finished) && all_there), "{context}");
    if let Err(error) = outcome {
        assert!(!error.to_string().contains(char::is_control), "{context}");
    }
}

/// The receiver's part.
async fn act(connection: Connection, steps: &[Step]) {
    let (mut control, messages) = connection.accept_bi().await.unwrap();
    let mut messages = message::listen::<FromSender>(messages);
    let mut sent = 0;
    for step in steps {
        match step {
            Step::Say(message) => drop(control.write_all(&message::encode(message)).await),
            Step::Hear(files) => {
                // A sender that waits sends nothing.
                while sent < *files
                    && let Ok(Some(Ok(message))) = timeout(SOON, messages.recv()).await
                {
                    sent += usize::from(matches!(message, FromSender::FileSent { .. }));
                }
            }
        }
    }
    let _ = control.finish();
    while let Some(Ok(_)) = messages.recv().await {}
    connection.closed().await;
}

#[test]
fn every_message_in_every_state_ends_a_sender_without_false_success() {
    let states = states();
    let all = messages().into_iter().enumerate().flat_map(|(at, message)| {
        states.clone().into_iter().enumerate().map(move |(state, mut steps)| {
            steps.extend([Step::Say(message.clone()), Step::Say(FromReceiver::Finished)]);
            // What a sender of a pipe hears in its two states.
            converse(state % 5 == 0 && at % 2 == 0, steps)
        })
    });
    run(all);
}

#[test]
fn any_sequence_of_messages_ends_a_sender_without_false_success() {
    let step = proptest::prop_oneof![
        8 => proptest::sample::select(messages()).prop_map(Step::Say),
        1 => (0_usize..3).prop_map(Step::Hear),
    ];
    let sequence = (proptest::sample::select(states()), proptest::collection::vec(step, 1..10));
    let mut runner = TestRunner::deterministic();
    let all = (0..200).map(move |at| {
        let (begin, steps) = sequence.new_tree(&mut runner).unwrap().current();
        converse(at % 4 == 0, [begin, steps].concat())
    });
    run(all);
}
