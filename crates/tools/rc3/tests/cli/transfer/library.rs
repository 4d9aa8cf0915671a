//! Transfers inside a program: events go to an observer, and the program decides when to stop.

use std::{
    fs,
    future::{pending, ready},
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use rc3::error::{Error, ErrorKind};
use rc3::transfer::{
    destination::Policy,
    manifest::Selection,
    meet::Settings,
    progress::{Event, Observer, Reporter},
    receive::{ReceiveJob, Receiver},
    send::{Content, SendJob, send_until},
    ticket::Ticket,
};
use tokio::time::sleep;

use super::{harness::content, hostile_sender::Intruder};

fn receiving(dir: &Path) -> ReceiveJob {
    ReceiveJob {
        dir: Some(dir.to_owned()),
        bind: Some(([127, 0, 0, 1], 0).into()),
        advertise: None,
        identity: None,
        ticket_file: None,
        meet: None,
        keep: false,
        policy: Policy::default(),
        settings: Settings::default(),
    }
}

fn sending(path: &Path, ticket: &Ticket) -> SendJob {
    let content = Content::Paths(vec![path.to_owned()]);
    let (invitation, settings) = (ticket.clone().into(), Settings::default());
    SendJob {
        content,
        selection: Selection::default(),
        invitation,
        dry_run: false,
        rate_limit: None,
        settings,
    }
}

/// A reporter, and the names of the events that it got.
fn recording() -> (Reporter, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    let observer = Observer::new(move |event: &Event<'_>| {
        let value = serde_json::to_value(event).unwrap();
        record.lock().unwrap().push(value["event"].as_str().unwrap().to_owned());
    });
    (Reporter::observed(observer), seen)
}

fn silent() -> Reporter {
    recording().0
}

#[tokio::test(flavor = "multi_thread")]
async fn one_receiver_takes_several_transfers() {
    let directory = tempfile::tempdir().unwrap();
    let into = directory.path().join("in");
    fs::create_dir(&into).unwrap();
    let mut receiver = Receiver::listen(receiving(&into)).unwrap();
    let ticket = receiver.ticket().clone();
    for name in ["a", "b"] {
        let file = directory.path().join(name);
        fs::write(&file, content(100_000)).unwrap();
        let ((mut at_sender, sent), (mut at_receiver, received)) = (recording(), recording());
        let (sending, receiving) = tokio::join!(
            send_until(pending(), sending(&file, &ticket), &mut at_sender),
            receiver.receive(pending(), &mut at_receiver),
        );
        sending.unwrap();
        receiving.unwrap();
        for events in [sent, received] {
            let events = events.lock().unwrap();
            assert_eq!((events[0].as_str(), events.last().unwrap().as_str()), ("start", "done"));
            assert!(events.contains(&"file".to_owned()), "{events:?}");
        }
        assert_eq!(fs::read(into.join(name)).unwrap(), content(100_000));
    }
    receiver.close(Ok(())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_receiver_can_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let into = directory.path().join("in");
    let file = directory.path().join("file");
    fs::create_dir(&into).unwrap();
    fs::write(&file, content(3_000_000)).unwrap();
    let mut receiver = Receiver::listen(receiving(&into)).unwrap();
    let ticket = receiver.ticket().clone();

    let stopped = receiver.receive(ready(()), &mut silent()).await;
    assert_eq!(stopped.as_ref().err().map(Error::kind), Some(ErrorKind::Interrupted), "{stopped:?}");

    // A second of it, of which a part arrives.
    let slow = SendJob {
        rate_limit: rc3_core::units::Rate::from_bits_per_second(24_000_000),
        ..sending(&file, &ticket)
    };
    let (mut at_sender, mut at_receiver) = (silent(), silent());
    let (sent, stopped) = tokio::join!(
        send_until(pending(), slow, &mut at_sender),
        receiver.receive(sleep(Duration::from_millis(400)), &mut at_receiver),
    );
    assert_eq!(stopped.as_ref().err().map(Error::kind), Some(ErrorKind::Interrupted), "{stopped:?}");
    let reason = sent.unwrap_err().to_string();
    assert!(reason.contains("was interrupted, and keeps what arrived"), "{reason}");

    let (mut at_sender, mut at_receiver) = (silent(), silent());
    let (sent, received) = tokio::join!(
        send_until(pending(), sending(&file, &ticket), &mut at_sender),
        receiver.receive(pending(), &mut at_receiver),
    );
    sent.unwrap();
    received.unwrap();
    assert_eq!(fs::read(into.join("file")).unwrap(), content(3_000_000));
    receiver.close(Ok(())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_stops_when_its_program_wants() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, content(1000)).unwrap();
    let receiver = Receiver::listen(receiving(directory.path())).unwrap();
    let ticket = receiver.ticket().clone();
    // Nobody receives.
    let stop = sleep(Duration::from_millis(200));
    let stopped = send_until(stop, sending(&file, &ticket), &mut silent()).await;
    assert_eq!(stopped.as_ref().err().map(Error::kind), Some(ErrorKind::Interrupted), "{stopped:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_that_says_hello_and_nothing_more_is_given_up_at_each_step() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("file");
    fs::write(&file, content(1000)).unwrap();
    fs::write(to.path().join("file"), content(1000)).unwrap();
    let patience = Duration::from_millis(300);
    let settings = Settings { patience, ..Settings::default() };
    let mut receiver = Receiver::listen(ReceiveJob { settings, ..receiving(to.path()) }).unwrap();
    let ticket = receiver.ticket().clone();
    let errors = Arc::<Mutex<Vec<String>>>::default();
    let record = Arc::clone(&errors);
    let mut reporter = Reporter::observed(Observer::new(move |event: &Event<'_>| {
        if let Event::Error { message, .. } = event {
            record.lock().unwrap().push(message.clone());
        }
    }));
    let senders = async {
        let text = ticket.to_string();
        Intruder::meet(&text).await.closed().await;
        let mut second = Intruder::meet(&text).await;
        second.list(&[(b"file", 1000)]).await;
        second.closed().await;
        // The ticket is as good as before.
        send_until(pending(), sending(&file, &ticket), &mut silent()).await.unwrap();
    };
    let (received, ()) = tokio::join!(receiver.receive(pending(), &mut reporter), senders);
    receiver.close(received).await.unwrap();
    let expected = ["its list of files", "the hash of a file that exists"]
        .map(|step| format!("the sender did not send {step} within 0.3 s"));
    assert_eq!(*errors.lock().unwrap(), expected);
}
