//! A host with the files lies to a receiver.

use std::{fs, net::Ipv4Addr, path::PathBuf, sync::atomic::Ordering::Relaxed, time::Duration};

use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};
use tokio::time::timeout;

use super::{
    super::{
        asked::Asked,
        attributes::{Attribute, Preserve},
        destination::{Destination, Existing, Policy},
        meet::{Listener, Settings, join, open},
        message::{self, Entry, FromReceiver, FromSender, Hello, Kind},
        progress::{Reporter, Style},
        receive::new_identity,
        side::Side,
    },
    FILES, entries, kinds, names, omissions, reporter, run,
};
use crate::error::{Error, ErrorKind};

/// What the host does.
#[derive(Debug, Clone)]
enum Step {
    Say(FromSender),
    /// A stream with these bytes, broken off or complete.
    Stream(&'static [u8], bool),
}

fn end() -> FromSender {
    end_with(0)
}

fn end_with(early: u32) -> FromSender {
    FromSender::ManifestEnd { dry_run: false, early }
}

fn messages() -> Vec<FromSender> {
    let hash = *blake3::hash(b"evil").as_bytes();
    let mut all = vec![FromSender::ManifestEnd { dry_run: true, early: 0 }];
    all.extend([0, 2, u32::MAX].map(end_with));
    all.push(FromSender::Abort { reason: "\u{1b}".repeat(5000) });
    all.extend(entries().map(FromSender::Entry));
    for name in ["user.a", "system.posix_acl_access", "security.capability", "", "user.\0"] {
        let name = name.as_bytes().to_vec();
        all.push(FromSender::Attribute(Attribute { name, value: vec![1; 5000] }));
    }
    all.extend(names().into_iter().map(|path| FromSender::Absent { path, reason: String::new() }));
    for entry in FILES {
        all.push(FromSender::Hash { entry, hash });
        all.extend(omissions().map(|omission| FromSender::Omit { entry, omission }));
        all.extend(kinds().into_iter().map(|kind| FromSender::Again { entry, kind }));
    }
    all
}

/// Ways into every state of a receiver.
fn states() -> Vec<Vec<Step>> {
    let entry = |path: &[u8], kind| Step::Say(FromSender::Entry(Entry { path: path.to_owned(), kind }));
    let file = |path| entry(path, kinds().swap_remove(2));
    let directory = || entry(b"asked", Kind::Directory { mode: None, modified: None });
    let say = Step::Say;
    let hash = *blake3::hash(b"evil").as_bytes();
    let sent = |entry| say(FromSender::Hash { entry, hash });
    let begun = vec![directory(), file(b"asked/a"), file(b"asked/b")];
    let agreed = [&begun[..], &[say(end())]].concat();
    let arriving = [&agreed[..], &[Step::Stream(b"evil", false)]].concat();
    let again = say(FromSender::Again { entry: 1, kind: kinds().swap_remove(2) });
    let omit = say(FromSender::Omit { entry: 1, omission: omissions()[0].clone() });
    let compared = [directory(), file(b"asked/there"), say(end())];
    let pipe = [entry(b"asked", Kind::Pipe), say(end())];
    vec![
        vec![],
        vec![directory()],
        pipe[..1].to_vec(),
        pipe.to_vec(),
        [&pipe[..], &[Step::Stream(b"evil", false)]].concat(),
        begun.clone(),
        compared.to_vec(),
        agreed.clone(),
        [&agreed[..], std::slice::from_ref(&omit)].concat(),
        [&begun[..], &[say(end_with(3)), Step::Stream(b"evil", false), sent(1)]].concat(),
        [&begun[..], &[say(end_with(2)), omit]].concat(),
        vec![directory(), file(b"asked/there"), say(end_with(2)), Step::Stream(b"evil", false), sent(1)],
        [&agreed[..], &[Step::Stream(b"ev", true)]].concat(),
        [&arriving[..], &[sent(1)]].concat(),
        [&arriving[..], std::slice::from_ref(&again)].concat(),
        [&arriving[..], &[again, Step::Stream(b"evil", false), Step::Stream(b"evil", false), sent(1)]]
            .concat(),
        [&arriving[..], &[Step::Stream(b"evil", false), sent(2), sent(1)]].concat(),
    ]
}

/// A directory with files that nobody may touch, inside another.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(place.at("inside/asked")).unwrap();
        fs::write(place.at("inside/asked/there"), b"1234").unwrap();
        fs::write(place.at("inside/.profile"), b"mine").unwrap();
        fs::write(place.at("outside"), b"precious").unwrap();
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn listed(&self, name: &str) -> Vec<String> {
        let entries = fs::read_dir(self.at(name)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn check(&self, asked: &Asked, context: &str) {
        assert_eq!(self.listed("."), ["inside", "outside"], "{context}");
        assert_eq!(fs::read(self.at("outside")).unwrap(), b"precious", "{context}");
        if asked.is_download() {
            assert_eq!(fs::read(self.at("inside/.profile")).unwrap(), b"mine", "{context}");
            for name in self.listed("inside") {
                let derived = [".asked.", "asked ("].iter().any(|from| name.starts_with(from));
                assert!([".profile", "asked"].contains(&&*name) || derived, "{name}: {context}");
            }
        }
    }
}

/// A receiver that asked for this, and a host that does that.
async fn converse(asked: Asked, existing: Existing, steps: Vec<Step>) {
    let settings = Settings::default();
    let at = Some((Ipv4Addr::LOCALHOST, 0).into());
    let listener = Listener::open(false, &new_identity().unwrap(), &settings, at).unwrap();
    let place = Place::new();
    let preserve = Preserve { xattrs: true, acls: true, hard_links: true };
    let policy = Policy { existing, preserve, ..Policy::default() };
    let destination = Destination::open(&place.at("inside"), policy, [7; 32]).unwrap();
    let endpoint = open(&settings.network, &[listener.address]).unwrap();
    let trust = (listener.fingerprint, listener.secret);
    // The progress of a pipe may name what was not asked for.
    let (observed, done) = reporter();
    let mut reporter = if asked.is_download() { observed } else { Reporter::new(Style::Quiet, "") };
    let side = Side::Receive(destination.clone(), asked.clone());
    let fetching = async {
        let control = join(false, &endpoint, &[listener.address], trust, &settings).await?;
        side.run(&endpoint, control, settings.patience, &mut reporter).await
    };
    let (outcome, replies) = tokio::join!(fetching, act(&listener, &steps));
    while !destination.is_idle() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let context = format!("{asked:?}, {existing:?}: {steps:?}: {outcome:?}, {replies:?}");
    assert!(!context.contains("panicked"), "{context}");
    place.check(&asked, &context);
    assert!(
        outcome.is_err() || done.load(Relaxed) || !asked.is_download(),
        "success without files: {context}"
    );
    let kind = outcome.as_ref().err().map(Error::kind);
    assert_ne!(kind, Some(ErrorKind::Local), "a background task failed: {context}");
}

/// The host's part; returns what it heard.
async fn act(listener: &Listener, steps: &[Step]) -> Vec<FromReceiver> {
    let connection = listener.endpoint.accept().await.unwrap().await.unwrap();
    let (mut control, mut replies) = connection.accept_bi().await.unwrap();
    message::read::<Hello>(&mut replies).await.unwrap();
    let mut replies = message::listen::<FromReceiver>(replies);
    for step in steps {
        match step {
            Step::Say(message) => drop(control.write_all(&message::encode(message)).await),
            Step::Stream(bytes, breaks) => {
                let opened = timeout(Duration::from_secs(1), connection.open_uni()).await;
                let Ok(Ok(mut stream)) = opened else { continue };
                let _ = stream.write_all(bytes).await;
                let _ = if *breaks { stream.reset(7_u8.into()) } else { stream.finish() };
            }
        }
    }
    let _ = control.finish();
    let mut heard = Vec::new();
    while let Some(Ok(reply)) = replies.recv().await {
        heard.push(reply);
    }
    heard
}

fn asked() -> [Asked; 4] {
    let named = |links| Asked::Download { names: Some(vec![b"asked".to_vec()]), links };
    [named(false), named(true), Asked::Files, Asked::Anything]
}

const POLICIES: [Existing; 3] = [Existing::Replace, Existing::Report, Existing::KeepBoth];

#[test]
fn every_message_in_every_state_brings_only_what_was_asked_for() {
    let states = states();
    let all = messages().into_iter().enumerate().flat_map(|(at, message)| {
        let states = states.clone().into_iter().enumerate();
        states.map(move |(state, mut steps)| {
            steps.push(Step::Say(message.clone()));
            // What a sender would say next, whatever it said.
            steps.extend([Step::Say(end()), Step::Stream(b"evil", false)]);
            let hash = *blake3::hash(b"evil").as_bytes();
            steps.extend([0, 1, 2].map(|entry| Step::Say(FromSender::Hash { entry, hash })));
            // Half of them against a download, which is the strictest.
            let whose = if (at + state) % 2 == 0 { 0 } else { 1 + (at + state) / 2 % 3 };
            converse(asked()[whose].clone(), POLICIES[(at + state) % 3], steps)
        })
    });
    run(all);
}

#[test]
fn any_sequence_of_messages_brings_only_what_was_asked_for() {
    let step = proptest::prop_oneof![
        8 => proptest::sample::select(messages()).prop_map(Step::Say),
        1 => proptest::prelude::any::<bool>().prop_map(|breaks| Step::Stream(b"evil", breaks)),
    ];
    let begin = proptest::sample::select(states());
    let sequence = (begin, proptest::collection::vec(step, 1..12));
    let mut runner = TestRunner::deterministic();
    let all = (0..300).map(move |at| {
        let (begin, steps) = sequence.new_tree(&mut runner).unwrap().current();
        converse(asked()[at % 4].clone(), POLICIES[at % 3], [begin, steps].concat())
    });
    run(all);
}
