//! A real sshd on loopback, with its own keys and for this user only.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// A running server; killed when the test ends.
pub(crate) struct Sshd {
    child: Child,
    directory: TempDir,
    pub(crate) port: u16,
}

impl Sshd {
    /// What must be installed for [`Self::start`].
    pub(crate) const NEEDS: &str = "ssh, sshd and ssh-keygen";

    /// A server, or nothing where the programs are missing.
    pub(crate) fn start() -> Option<Self> {
        let program =
            ["/usr/sbin/sshd", "/usr/local/sbin/sshd"].into_iter().find(|path| Path::new(path).exists())?;
        let directory = tempfile::tempdir().ok()?;
        let file = |name: &str| directory.path().join(name);
        if !runs("ssh", &["-V"]) || !key(&file("host")) || !key(&file("user")) {
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
        let server = Self { child: command.spawn().ok()?, directory, port };
        let until = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if Instant::now() > until {
                return None;
            }
            thread::sleep(Duration::from_millis(50));
        }
        Some(server)
    }

    /// `ssh` with the options that this server needs, without those of the user.
    pub(crate) fn client(&self) -> Vec<String> {
        let file = |name: &str| self.directory.path().join(name).display().to_string();
        let words = format!("ssh -F none -T -p {} -oBatchMode=yes -oStrictHostKeyChecking=no", self.port);
        let mut words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        words.extend(["-i".to_owned(), file("user"), format!("-oUserKnownHostsFile={}", file("known"))]);
        words
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a program is there and succeeds.
pub(crate) fn runs(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Makes a key without a passphrase.
fn key(path: &Path) -> bool {
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).status();
    made.is_ok_and(|status| status.success())
}
