//! ssh and rsync by a ProxyCommand, as docs/TUNNEL.md shows it, to a real sshd.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant, UNIX_EPOCH},
};

use tempfile::TempDir;

use super::harness::*;
use crate::{
    real_sshd::{Sshd, runs},
    skip::skipped,
};

/// An sshd, a tunnel to its host, and the identity of a user that is paired with it.
struct Session {
    sshd: Sshd,
    state: TempDir,
    _tunnel: Server,
}

impl Session {
    fn new() -> Option<Self> {
        let sshd = Sshd::start()?;
        let tunnel = Server::start(&[]);
        let state = tempfile::tempdir().unwrap();
        // Pairs both sides: from here on the peer's name is enough.
        let mut pairing =
            stdio(state.path(), &[&format!("--stdio={}", echo()), "--name", "far"], Some(&tunnel.ticket));
        drop(pairing.child.stdin.take());
        assert_eq!(pairing.finish().0, Some(0));
        Some(Self { sshd, state, _tunnel: tunnel })
    }

    /// The words of `ssh` through the tunnel, without the host.
    fn words(&self) -> Vec<String> {
        let proxy = format!(
            "-oProxyCommand={} tunnel --no-path-memory --state {} --stdio=localhost:%p %h",
            env!("CARGO_BIN_EXE_rc3"),
            self.state.path().display()
        );
        let mut words = self.sshd.client();
        words.push(proxy);
        words
    }

    /// Starts `ssh far COMMAND`.
    fn ssh(&self, remote: &str) -> Child {
        let words = self.words();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["far", remote]).env_remove("RUST_LOG").env_remove("RC3_TICKET");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("ssh starts")
    }

    /// Runs `ssh far COMMAND` with this standard input, which then ends.
    fn run(&self, remote: &str, input: Vec<u8>) -> Output {
        let mut child = self.ssh(remote);
        let mut writer = child.stdin.take().expect("piped");
        let writing = thread::spawn(move || {
            // A remote command need not read.
            let _ = writer.write_all(&input);
        });
        let output = finish(child);
        writing.join().expect("it ends");
        output
    }
}

/// Waits for the end of a command with piped output; a test fails instead of hanging.
fn finish(mut child: Child) -> Output {
    let mut pipes: Vec<Box<dyn Read + Send>> =
        vec![Box::new(child.stdout.take().expect("piped")), Box::new(child.stderr.take().expect("piped"))];
    let [errors, out] = [pipes.pop(), pipes.pop()].map(|pipe| {
        let mut pipe = pipe.expect("two pipes");
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = pipe.read_to_end(&mut bytes);
            bytes
        })
    });
    let until = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child of ours") {
            break status;
        }
        if Instant::now() > until {
            let _ = child.kill();
            panic!("the command does not end");
        }
        thread::sleep(Duration::from_millis(20));
    };
    Output { status, stdout: out.join().expect("it reads"), stderr: errors.join().expect("it reads") }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn ssh_runs_commands_and_carries_bytes_both_ways() {
    let Some(session) = Session::new() else {
        skipped(Sshd::NEEDS);
        return;
    };
    let output = session.run("echo out; echo err >&2; exit 7", Vec::new());
    assert_eq!((output.status.code(), &*output.stdout), (Some(7), &b"out\n"[..]), "{}", said(&output));
    assert!(said(&output).contains("err"));

    let (directory, bytes) = (tempfile::tempdir().unwrap(), content(11, 5_000_000));
    let file = directory.path().join("file");
    let output = session.run(&format!("cat >{}", file.display()), bytes.clone());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(fs::read(&file).unwrap() == bytes);
    let output = session.run(&format!("cat {}", file.display()), Vec::new());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(output.stdout == bytes);

    // The end of standard input reaches the remote command, and its output returns after that.
    let output = session.run("cat; echo end", bytes.clone());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(output.stdout == [&bytes, &b"end\n"[..]].concat());
}

#[test]
fn ssh_answers_each_keystroke() {
    let Some(session) = Session::new() else {
        skipped(Sshd::NEEDS);
        return;
    };
    let mut child = session.ssh("cat");
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let typing = thread::spawn(move || {
        for byte in *b"keystrokes" {
            input.write_all(&[byte]).unwrap();
            let mut echoed = [0];
            output.read_exact(&mut echoed).unwrap();
            assert_eq!(echoed, [byte]);
        }
        drop(input);
        // Its end closes the session.
        let mut rest = Vec::new();
        output.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"");
    });
    let until = Instant::now() + PATIENCE;
    while !typing.is_finished() && Instant::now() < until {
        thread::sleep(Duration::from_millis(20));
    }
    if !typing.is_finished() {
        let _ = child.kill();
    }
    let code = child.wait().unwrap().code();
    typing.join().expect("each keystroke comes back");
    assert_eq!(code, Some(0));
}

#[test]
fn rsync_copies_a_tree() {
    if !runs("rsync", &["--version"]) {
        skipped("rsync");
        return;
    }
    let Some(session) = Session::new() else {
        skipped(Sshd::NEEDS);
        return;
    };
    let (from, to, back) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let tree = from.path().join("tree");
    fs::create_dir_all(tree.join("sub/empty")).unwrap();
    for number in 0..20_u64 {
        let path = tree.join(format!("sub/{number}"));
        fs::write(&path, content(number, 3_000 * number as usize)).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(if number % 2 == 0 { 0o640 } else { 0o755 }))
            .unwrap();
    }
    fs::write(tree.join("large"), content(3, 2_000_000)).unwrap();
    age(from.path());
    // A shell splits these words again, so the one with spaces is quoted.
    let shell: Vec<String> = session.words().into_iter().map(|word| format!("'{word}'")).collect();
    let rsync = |from: &str, to: &str| {
        let mut command = Command::new("rsync");
        command
            .args(["-a", "-e", &shell.join(" "), from, to])
            .env_remove("RUST_LOG")
            .env_remove("RC3_TICKET");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = finish(command.spawn().expect("rsync starts"));
        assert!(output.status.success(), "{}", said(&output));
    };
    let there = format!("far:{}/", to.path().display());
    let here = |path: &Path| path.display().to_string();
    rsync(&here(&tree), &there);
    assert_eq!(entries(to.path()), entries(from.path()));
    rsync(&format!("{there}tree"), &here(back.path()));
    assert_eq!(entries(back.path()), entries(from.path()));

    // The second run sends what has changed.
    fs::write(tree.join("sub/new"), b"new").unwrap();
    age(from.path());
    rsync(&here(&tree), &there);
    assert_eq!(entries(to.path()), entries(from.path()));
}

/// Sets the times of all below `root` to some of long ago: rsync leaves a time alone that differs by less than a second.
fn age(root: &Path) {
    for path in entries(root).into_keys() {
        let seconds = 1_000_000_000 + path.as_os_str().len() as u64;
        let file = fs::File::open(root.join(path)).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }
}

/// Hash of the content, permission bits and time of each path below `root`.
fn entries(root: &Path) -> BTreeMap<PathBuf, (Option<blake3::Hash>, u32, Duration)> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let content = metadata.is_file().then(|| blake3::hash(&fs::read(&path).unwrap()));
            let time = metadata.modified().unwrap().duration_since(UNIX_EPOCH).unwrap();
            if metadata.is_dir() {
                open.push(path.clone());
            }
            let name = path.strip_prefix(root).unwrap().to_owned();
            found.insert(name, (content, metadata.permissions().mode(), time));
        }
    }
    found
}
