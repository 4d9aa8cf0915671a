//! Python's aioquic fetches from the axum server by plain HTTP/3, and its malformed requests are refused.

mod common;

use std::{path::Path, process::Command};

use common::{
    Server,
    made::{MADE, environment, output, write},
    router::pattern,
    run,
};
use rc3_adapters::Settings;

const VERSION: &str = "aioquic==1.7.2";

#[test]
fn aioquic_fetches_by_plain_http3() {
    if std::env::var_os("RC3_AIOQUIC").is_none_or(|value| value != "install") {
        eprintln!("skipped: RC3_AIOQUIC=install installs aioquic into {MADE}");
        return;
    }
    let python = environment("aioquic", VERSION).join("python");
    run(async move {
        let server = Server::start(Settings::default());
        let certificate = write("aioquic.pem", server.identity.pem.as_bytes());
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
