//! `rc3 recv` and `rc3 tunnel --listen` as services.
#![cfg(unix)]

use std::{
    fs::{self, File},
    net::UdpSocket,
    os::unix::{fs::MetadataExt, net::UnixDatagram},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{
    skip::skipped,
    tunnel::harness::{PATIENCE, scrape},
};

/// A command under something that listens as a service manager does; killed when the test ends.
struct Service {
    child: Child,
    manager: UnixDatagram,
    directory: TempDir,
}

impl Service {
    /// Standard error goes to a file, which is that of the journal if `journal`.
    fn start(directory: TempDir, arguments: &[&str], journal: bool) -> Self {
        let socket = directory.path().join("notify");
        let _ = fs::remove_file(&socket);
        let manager = UnixDatagram::bind(&socket).unwrap();
        manager.set_read_timeout(Some(PATIENCE)).unwrap();
        let log = File::options().create(true).append(true).open(directory.path().join("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_rc3"));
        command.args(arguments).env_remove("RC3_TICKET").env_remove("HOME").stdin(Stdio::null());
        command.current_dir(directory.path()).stdout(Stdio::null());
        command.env("NOTIFY_SOCKET", &socket).env("XDG_STATE_HOME", directory.path());
        command.env("RUST_LOG", "rc3_core=debug");
        if journal {
            let there = log.metadata().unwrap();
            command.env("JOURNAL_STREAM", format!("{}:{}", there.dev(), there.ino()));
        }
        let child = command.stderr(log).spawn().unwrap();
        Self { child, manager, directory }
    }

    /// A receiver that keeps its address.
    fn receiver(directory: TempDir, address: &str, journal: bool) -> Self {
        fs::create_dir_all(directory.path().join("files")).unwrap();
        let arguments = ["recv", "--keep", "--listen", address, "--dir", "files", "--identity", "identity"];
        let metrics = ["--ticket-file", "ticket", "--metrics", "127.0.0.1:0"];
        Self::start(directory, &[&arguments[..], &metrics].concat(), journal)
    }

    /// Waits until the manager hears this.
    fn hear(&self, wanted: &str) {
        let mut heard = Vec::new();
        while !heard.iter().any(|line| line == wanted) {
            let mut bytes = [0; 1024];
            let read = self.manager.recv(&mut bytes).unwrap_or_else(|error| panic!("{error}: {heard:?}"));
            heard.extend(std::str::from_utf8(&bytes[..read]).unwrap().lines().map(str::to_owned));
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap()
    }

    /// What a scraper gets.
    fn metrics(&self) -> String {
        scrape(&self.log())
    }

    /// Ends it as a manager does; returns its directory.
    fn stop(mut self) -> TempDir {
        signal(&self.child, Signal::TERM);
        self.hear("STOPPING=1");
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{}", self.log());
        std::mem::replace(&mut self.directory, tempfile::tempdir().unwrap())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Begins to send a file by the ticket of a service.
fn sender(service: &Service, file: &Path, flags: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rc3"));
    command.args(["send", "--no-path-memory", "--ticket-file"]).arg(service.path("ticket")).args(flags);
    command.arg(file).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn finish(sender: Child) -> String {
    let sent = sender.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&sent.stderr).into_owned();
    assert!(sent.status.success(), "{said}");
    said
}

/// Free now; another program could take it meanwhile.
fn address() -> String {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn a_manager_learns_the_state_and_a_scraper_the_figures() {
    let from = tempfile::tempdir().unwrap();
    let file = from.path().join("file");
    fs::write(&file, b"content").unwrap();
    for journal in [false, true] {
        let service = Service::receiver(tempfile::tempdir().unwrap(), &address(), journal);
        service.hear("READY=1");
        finish(sender(&service, &file, &[]));
        service.hear("STATUS=1 transfer running, 0 senders waiting");
        service.hear("STATUS=waiting for a sender");
        let metrics = service.metrics();
        for line in ["rc3_transfers_ended{outcome=\"complete\"} 1", "rc3_files 1", "rc3_file_bytes 7"] {
            assert!(metrics.lines().any(|found| found == line), "no {line:?} in {metrics}");
        }
        assert!(metrics.contains("\r\ncontent-type: text/plain; version=0.0.4"), "{metrics}");

        // Lines of the command and of RUST_LOG have one form.
        let log = service.log();
        assert!(log.contains("DEBUG") && log.contains("waiting for the next sender"), "{log}");
        assert!(!log.contains('\u{1b}'), "{log}");
        let is_dated = |line: &str| line.starts_with("20") && line[..30].contains('T');
        assert!(log.lines().all(|line| is_dated(line) != journal), "{log}");
        service.stop();
    }
}

#[test]
fn a_restart_keeps_the_port_and_its_senders() {
    let from = tempfile::tempdir().unwrap();
    let file = from.path().join("file");
    fs::write(&file, vec![7; 8_000_000]).unwrap();
    let address = address();
    let service = Service::receiver(tempfile::tempdir().unwrap(), &address, false);
    service.hear("READY=1");
    let sender = sender(&service, &file, &["--rate-limit", "32mbit"]);
    service.hear("STATUS=1 transfer running, 0 senders waiting");
    let directory = service.stop();
    assert!(!directory.path().join("ticket").exists());
    let service = Service::receiver(directory, &address, false);
    service.hear("READY=1");
    let said = finish(sender);
    assert!(said.contains("the other side was stopped, and may be started again; trying again"), "{said}");
    assert!(fs::read(service.path("files/file")).unwrap() == vec![7; 8_000_000]);
    service.stop();
}

/// The lines of the units that are installed.
#[test]
fn units_are_valid_and_their_commands_become_ready() {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd");
    let verified = tempfile::tempdir().unwrap();
    let has_systemd = Command::new("systemd-analyze").arg("--version").output().is_ok();
    if !has_systemd {
        skipped("systemd-analyze, to verify the units");
    }
    for (scope, name) in ["system", "user"]
        .into_iter()
        .flat_map(|scope| ["rc3-recv.service", "rc3-tunnel.service"].map(|name| (scope, name)))
    {
        let unit = fs::read_to_string(units.join(scope).join(name)).unwrap();
        if has_systemd {
            let path = verified.path().join(name);
            fs::write(&path, unit.replace("/usr/bin/rc3", env!("CARGO_BIN_EXE_rc3"))).unwrap();
            let mut verify = Command::new("systemd-analyze");
            verify.env("XDG_RUNTIME_DIR", verified.path()).env("HOME", verified.path());
            let found =
                verify.args(["verify", "--man=no", &format!("--{scope}")]).arg(path).output().unwrap();
            let said = String::from_utf8_lossy(&found.stderr);
            assert!(found.status.success() && said.is_empty(), "{scope} {name}: {said}");
        }
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().to_str().unwrap().to_owned();
        let command = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/rc3 ")).unwrap();
        let expanded = ["%S", "%t", "%h"]
            .iter()
            .fold(command.to_owned(), |text, specifier| text.replace(specifier, &root));
        // Its own port may be in use here.
        let expanded =
            expanded.replace(":4434", "127.0.0.1:0").replace("--listen --", "--listen --bind 127.0.0.1:0 --");
        // What `StateDirectory=`, `RuntimeDirectory=` and `ExecStartPre=` make.
        for word in expanded.split(' ').filter(|word| word.starts_with(&root)) {
            let word = Path::new(word);
            let is_directory = word.ends_with("files") || word.ends_with("Downloads/rc3");
            fs::create_dir_all(if is_directory { word } else { word.parent().unwrap() }).unwrap();
        }
        let arguments: Vec<&str> = expanded.split(' ').collect();
        let service = Service::start(directory, &arguments, true);
        service.hear("READY=1");
        service.stop();
    }
}
