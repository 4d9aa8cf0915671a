//! A receiver lies to a sender.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use proptest::{strategy::Strategy, strategy::ValueTree, test_runner::TestRunner};
use rc3_net::{Connection, Endpoint, ServerConfig};
use tokio::time::timeout;

use super::{
    super::{
        identity::Identity,
        manifest::Selection,
        meet::Settings,
        message::{self, ALPN, Change, FromReceiver, FromSender, Hello, Refusal, Work},
        send::{Content, SendJob, send_pipe, send_until},
        ticket::{Secret, Ticket},
        verdict::Verdict,
    },
    FILES, omissions, reporter, run,
};
use crate::error::{Error, ErrorKind};

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
    let refusals = [Refusal::Manifest, Refusal::Storage];
    all.extend(refusals.map(|refusal| FromReceiver::Refused { refusal, reason: reason.clone() }));
    all.extend([Work::AnotherTransfer, Work::Comparing, Work::Storing].map(FromReceiver::Working));
    let mut verdicts = vec![
        Verdict::Placed,
        Verdict::Same,
        Verdict::Conflict,
        Verdict::Name,
        Verdict::Outside,
        Verdict::Shared,
        Verdict::Damaged,
        Verdict::Refused(reason),
    ];
    verdicts.extend(omissions().map(Verdict::Omitted));
    for entry in FILES {
        for gaps in [&[][..], &[(0, 1)], &[(2, 1)], &[(0, u64::MAX)]] {
            all.push(FromReceiver::Missing { entry, gaps: gaps.to_vec() });
        }
        all.push(FromReceiver::Compare { entry });
        all.extend(verdicts.iter().map(|verdict| FromReceiver::Settled { entry, verdict: verdict.clone() }));
        all.extend([Change::Replace, Change::KeepBoth].map(|change| FromReceiver::Would { entry, change }));
    }
    all
}

/// Ways into every state of a sender of two files.
fn states() -> Vec<Vec<Step>> {
    use FromReceiver::{Accepted, Compare, Missing, Settled};
    let say = |message| Step::Say(message);
    let settled = |entry, verdict| say(Settled { entry, verdict });
    vec![
        vec![],
        vec![say(Compare { entry: 1 })],
        vec![say(Compare { entry: 1 }), settled(1, Verdict::Same)],
        vec![say(Missing { entry: 2, gaps: vec![(5, 9)] })],
        vec![settled(1, Verdict::Conflict)],
        vec![say(Accepted)],
        vec![settled(1, Verdict::Conflict), say(Accepted), Step::Hear(1)],
        vec![say(Accepted), Step::Hear(2)],
        vec![say(Accepted), Step::Hear(2), settled(1, Verdict::Placed)],
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
    let content = Content::Paths(vec![top]);
    let settings = Settings::default();
    let job = SendJob {
        content,
        selection: Selection::default(),
        invitation: ticket.into(),
        dry_run: false,
        rate_limit: None,
        settings,
    };
    let (mut reporter, _) = reporter();
    let sending = async {
        if pipe {
            let (stop, input) = (pin!(std::future::pending()), Box::new(&[7; 5000][..]));
            send_pipe(stop, &job, Some("asked"), input, &mut reporter).await
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
    let kind = outcome.as_ref().err().map(Error::kind);
    assert_ne!(kind, Some(ErrorKind::Local), "a background task failed: {context}");
    let says =
        |wanted: &FromReceiver| steps.iter().any(|step| matches!(step, Step::Say(said) if said == wanted));
    let settled = |entry| {
        let settled = |verdict| says(&FromReceiver::Settled { entry, verdict });
        settled(Verdict::Placed) || settled(Verdict::Same)
    };
    let all_there = if pipe { settled(0) } else { settled(1) && settled(2) };
    assert!(outcome.is_err() || (says(&FromReceiver::Finished) && all_there), "{context}");
    if let Err(error) = outcome {
        assert!(!error.to_string().contains(char::is_control), "{context}");
    }
}

/// The receiver's part.
async fn act(connection: Connection, steps: &[Step]) {
    let (mut control, mut messages) = connection.accept_bi().await.unwrap();
    message::read::<Hello>(&mut messages).await.unwrap();
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
                    sent += usize::from(matches!(message, FromSender::Hash { .. }));
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
