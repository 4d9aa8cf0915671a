//! A real sshd on loopback.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
};

use super::{harness::*, skip::skipped};

/// Killed when the test ends.
struct Sshd(Child);

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Makes a key without a passphrase.
fn key(path: &Path) -> bool {
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).status();
    made.is_ok_and(|status| status.success())
}

/// Starts a server in `directory`, with its keys; returns it and its port.
fn start(directory: &Path) -> Option<(Sshd, u16)> {
    let program =
        ["/usr/sbin/sshd", "/usr/local/sbin/sshd"].into_iter().find(|path| Path::new(path).exists())?;
    let file = |name: &str| directory.join(name);
    if !key(&file("host")) || !key(&file("user")) {
        return None;
    }
    fs::copy(file("user.pub"), file("authorized")).ok()?;
    let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
    let lines = [
        format!("Port {port}\nListenAddress 127.0.0.1\nHostKey {}", file("host").display()),
        format!("AuthorizedKeysFile {}\nPidFile none", file("authorized").display()),
        "StrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n".to_owned(),
    ];
    fs::write(file("config"), lines.join("\n")).ok()?;
    // Required by some packages.
    let _ = fs::create_dir("/run/sshd");
    let mut command = Command::new(program);
    command.args(["-D", "-e", "-f"]).arg(file("config")).stdin(Stdio::null()).stderr(Stdio::null());
    let server = Sshd(command.spawn().ok()?);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        if std::time::Instant::now() > until {
            return None;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Some((server, port))
}

#[test]
fn a_real_sshd_starts_the_far_end() {
    let directory = temporary();
    let Some((_server, port)) = start(directory.path()) else {
        skipped("sshd and ssh-keygen");
        return;
    };
    let (from, to, back) = (temporary(), temporary(), temporary());
    fs::write(from.path().join("f"), content(2_000_000)).unwrap();
    let ssh = format!(
        "ssh -F none -T -p {port} -i {} -oStrictHostKeyChecking=no -oUserKnownHostsFile={} -oBatchMode=yes",
        directory.path().join("user").display(),
        directory.path().join("known").display(),
    );
    let there = |path: &Path| format!("127.0.0.1:{}", path.display());
    let copy = |flags: &[&str], from: String, to: String| {
        let mut command = rc3();
        command.arg("copy").args(["--rc3-path", env!("CARGO_BIN_EXE_rc3"), "--ssh", &ssh]);
        let output = command.args(flags).args([from, to]).output().expect("rc3 starts");
        assert!(output.status.success(), "{flags:?}: {}", said(&output));
    };
    let here = |path: &Path| path.display().to_string();
    copy(&[], here(&from.path().join("f")), there(to.path()));
    assert_eq!(tree(to.path()), tree(from.path()));
    copy(&["--via-ssh"], there(&to.path().join("f")), here(back.path()));
    assert_eq!(tree(back.path()), tree(from.path()));
}
