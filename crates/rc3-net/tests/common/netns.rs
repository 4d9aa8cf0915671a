//! Two network namespaces joined by a veth pair, and this test program run inside them.

use std::{
    env,
    io::{self, BufRead, BufReader},
    process::{Command, Output, Stdio, id},
};

#[path = "skip.rs"]
pub(crate) mod skip;

/// What a receiver prints once the sender may begin.
pub(crate) const READY: &str = "ready";

/// More than any role takes on a busy machine.
const PATIENCE_SECONDS: &str = "120";

/// The namespaces; removed on drop, also after a panic.
pub(crate) struct Namespaces {
    pub(crate) left: String,
    pub(crate) right: String,
}

impl Namespaces {
    /// Both with an address on `veth0`, or `None` after printing why not.
    ///
    /// Tests run side by side in one process, so each names its own.
    pub(crate) fn new(test: &str, left_address: &str, right_address: &str) -> Option<Self> {
        let pair =
            Self { left: format!("rc3-{test}-left-{}", id()), right: format!("rc3-{test}-right-{}", id()) };
        for name in [&pair.left, &pair.right] {
            if let Err(reason) = add(name) {
                skip::skipped(&format!("root and `ip`: {reason}"));
                return None;
            }
        }
        let (left, right) = (&pair.left, &pair.right);
        ip(&format!("-n {left} link add veth0 type veth peer name veth0 netns {right}"));
        for (name, address) in [(left, left_address), (right, right_address)] {
            ip(&format!("-n {name} addr add {address}/24 dev veth0"));
            ip(&format!("-n {name} link set veth0 up"));
        }
        Some(pair)
    }

    /// This program again, inside a namespace, as the ignored test `role` with `variable` set to `role`; killed
    /// after a while.
    pub(crate) fn role(&self, namespace: &str, variable: &str, role: &str) -> Command {
        let mut command = Command::new("timeout");
        command
            .arg(PATIENCE_SECONDS)
            .args(["ip", "netns", "exec", namespace])
            .arg(env::current_exe().expect("this program"))
            .args(["--exact", "role", "--ignored", "--nocapture"])
            .env(variable, role);
        command
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in [&self.left, &self.right] {
            // Ignore a namespace that was never created.
            let _ = Command::new("ip").args(["netns", "delete", name]).output();
        }
    }
}

/// Starts a receiver, waits until it is [`READY`], runs the sender, and checks that both succeed.
pub(crate) fn play(mut receiver: Command, mut sender: Command) {
    let mut receiver = receiver.stdout(Stdio::piped()).spawn().expect("the receiving end");
    let mut lines = BufReader::new(receiver.stdout.take().expect("a pipe"));
    let mut said = String::new();
    while !said.contains(READY) {
        said.clear();
        assert_ne!(lines.read_line(&mut said).unwrap(), 0, "the receiver ended before it was ready");
    }
    let sender = sender.output().expect("the sending end");
    print!("{}", String::from_utf8_lossy(&sender.stdout));
    // Keep reading, or the receiver would block on its pipe.
    let rest: String = lines.lines().map_while(Result::ok).collect::<Vec<_>>().join("\n");
    let receiver = receiver.wait().expect("its end");
    assert!(sender.status.success(), "sender: {}", text(&sender));
    assert!(receiver.success(), "receiver: {rest}");
}

/// Runs `ip` with these arguments.
pub(crate) fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("ip has just run");
    assert!(output.status.success(), "ip {arguments}: {}", text(&output));
}

/// What a command printed.
pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn add(name: &str) -> Result<(), String> {
    let output = Command::new("ip").args(["netns", "add", name]).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(text(&output).trim().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err("ip is not installed".into()),
        Err(error) => Err(format!("cannot run ip: {error}")),
    }
}
