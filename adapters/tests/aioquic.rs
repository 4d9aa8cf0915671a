//! Python's aioquic fetches from the axum server by plain HTTP/3, and its malformed requests are refused.

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use common::{Server, router::pattern, run};
use rc3_adapters::Settings;

const VERSION: &str = "aioquic==1.7.2";

/// The directory for what tests make.
const MADE: &str = env!("CARGO_TARGET_TMPDIR");

#[test]
fn aioquic_fetches_by_plain_http3() {
    if std::env::var_os("RC3_AIOQUIC").is_none_or(|value| value != "install") {
        eprintln!("skipped: RC3_AIOQUIC=install installs aioquic into {MADE}");
        return;
    }
    let python = python();
    run(async move {
        let server = Server::start(Settings::default());
        let certificate = write_certificate(&server.identity.pem);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fetch.py");
        let mut fetching = Command::new(python);
        fetching.arg(script).arg(server.address.port().to_string()).arg(certificate);
        let fetched = tokio::task::spawn_blocking(move || output(&mut fetching)).await.unwrap();

        let sent: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
        let fetched_whole =
            [line("/transport", b"plain"), line("/bytes/2000000", &pattern(2_000_000)), line("/echo", &sent)];
        let refused = ["/chunked", "/late", "/echo"].map(|path| {
            // H3_MESSAGE_ERROR
            format!("{path} reset 270")
        });
        let expected = [fetched_whole, refused].concat();
        assert_eq!(fetched.lines().collect::<Vec<_>>(), expected);
    });
}

/// What the script prints for a request.
fn line(path: &str, body: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, body);
    let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{path} 200 {} {digest}", body.len())
}

/// The interpreter of an environment with aioquic, which is made if it is not there.
fn python() -> PathBuf {
    let environment = Path::new(MADE).join("aioquic");
    let python = environment.join("bin/python");
    output(Command::new("python3").args(["-m", "venv"]).arg(&environment));
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", VERSION];
    output(Command::new(&python).args(install));
    python
}

fn write_certificate(pem: &str) -> PathBuf {
    let path = Path::new(MADE).join("aioquic.pem");
    fs::write(&path, pem).unwrap();
    path
}

/// What a command prints.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}
