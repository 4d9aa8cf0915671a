//! Memory of paths across processes.

use std::{fs, path::Path, time::Duration};

use rc3::emulator::{EmulatorConfig, LinkEmulator};
use rc3_core::units::Rate;

use super::harness::*;

/// The emulated link, and the receiver behind it.
pub(crate) struct Link {
    _emulator: LinkEmulator,
    pub(crate) receiver: Receiver,
}

fn rate() -> Rate {
    Rate::from_bits_per_second(40_000_000).expect("not zero")
}

impl Link {
    fn start(to: &Path) -> Self {
        Self::between(rate(), Duration::from_millis(40), to)
    }

    /// A link of this rate and round trip, and a receiver into `to`.
    pub(crate) fn between(rate: Rate, rtt: Duration, to: &Path) -> Self {
        // A free port that both can name.
        let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let config = EmulatorConfig::new(rate, rtt);
        let emulator = LinkEmulator::start(config, port).expect("a link");
        let (listen, advertise) = (port.to_string(), emulator.client_addr().to_string());
        let mut command = rc3();
        let mut child = command
            .args(["recv", "--quiet", "--keep", "--no-path-memory", "--listen", &listen])
            .args(["--advertise", &advertise, "--dir"])
            .arg(to)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("the receiver starts");
        let mut out = std::io::BufReader::new(child.stdout.take().expect("piped"));
        let mut ticket = String::new();
        std::io::BufRead::read_line(&mut out, &mut ticket).expect("a ticket");
        Self { _emulator: emulator, receiver: Receiver { child, out, ticket: ticket.trim().to_owned() } }
    }

    /// Sends in a separate process; returns the `path` of its summary.
    fn send(&self, file: &Path, flags: &[&str]) -> serde_json::Value {
        let output = send(&self.receiver.ticket, &[file], &[&["--json"], flags].concat());
        assert!(output.status.success(), "{}", said(&output));
        let text = String::from_utf8(output.stdout).expect("text");
        let done: serde_json::Value = serde_json::from_str(text.lines().last().expect("an event")).unwrap();
        assert_eq!(done["event"], "done");
        done["path"].clone()
    }
}

#[test]
fn the_next_process_begins_with_the_rate_that_was_found() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = |name: &str| {
        let path = from.path().join(name);
        // With new content, so that all of it is sent.
        fs::write(&path, content(3_000_000 + name.len())).unwrap();
        path
    };
    let memory = from.path().join("state/paths");
    let flags = ["--path-memory", memory.to_str().unwrap()];
    let link = Link::start(to.path());
    let first = link.send(&file("1"), &flags);
    assert_eq!(first["remembered"], false, "{first}");
    let text = fs::read_to_string(&memory).expect("it is stored");
    let line = text.lines().find(|line| line.starts_with("127.0.0.1 from=127.0.0.1 ")).expect("a line");
    let kept: f64 = line.split_once(" rate=").expect("a rate").1.split(' ').next().unwrap().parse().unwrap();
    // How close the rate is to that of the link depends on the machine's clock, and is tested in virtual time.
    let found = first["rate_bits_per_second"].as_f64().expect("a rate");
    assert!((0.5 * found..2.0 * found).contains(&kept), "{line}, {first}");

    let second = link.send(&file("22"), &flags);
    assert_eq!(second["remembered"], true, "{second}");
    let third = link.send(&file("333"), &["--no-path-memory"]);
    assert_eq!(third["remembered"], false, "{third}");

    // Transfers work whatever the file contains.
    fs::write(&memory, "127.0.0.1 from=127.0.0.1 at=99999999999999 rate=-1\n\u{0}").unwrap();
    let fourth = link.send(&file("4444"), &flags);
    assert_eq!(fourth["remembered"], false, "{fourth}");
    let nowhere = ["--path-memory", "/dev/null/paths"];
    assert_eq!(link.send(&file("55555"), &nowhere)["remembered"], false);
}

#[test]
fn the_marks_in_use_are_reported() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("file");
    fs::write(&file, content(2_000_000)).unwrap();
    let receiver = Receiver::start(to.path(), &[]);
    let output = send(&receiver.ticket, &[&file], &["--json", "--marks", "raised", "--no-path-memory"]);
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8(output.stdout).expect("text");
    let done: serde_json::Value = serde_json::from_str(text.lines().last().expect("an event")).unwrap();
    let levels = done["path"]["levels"].as_array().expect("levels").clone();
    assert_eq!((levels[0]["level"].as_u64(), levels[0]["dscp"].as_u64()), (Some(0), Some(24)), "{done}");
    assert!(levels.iter().skip(1).all(|level| level["dscp"] == 0 && level["priority"] == 1), "{done}");
}
