//! rc3 with itself and with quinn, without a network to set up.

use std::{
    fs,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use crate::{
    job::{Job, Result},
    over_quinn, over_rc3,
};

/// What each case fetches: number and size of the files.
const CASES: [(&str, usize, usize); 9] = [
    ("handshake", 1, 1000),
    ("transfer", 3, 700_000),
    // More than the streams that a server allows at once.
    ("transfer", 300, 32),
    ("retry", 1, 10_000),
    ("resumption", 2, 5000),
    ("zerortt", 4, 32),
    ("http3", 3, 200_000),
    ("chacha20", 1, 300_000),
    ("keyupdate", 1, 1_000_000),
];

/// A folder of certificates and files, and where they go.
fn prepare(folder: &std::path::Path) -> Result<Job> {
    let [www, downloads, certs] = ["www", "downloads", "certs"].map(|name| folder.join(name));
    for made in [&www, &downloads, &certs] {
        fs::create_dir_all(made)?;
    }
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    fs::write(certs.join("cert.pem"), certified.cert.pem())?;
    fs::write(certs.join("priv.key"), certified.signing_key.serialize_pem())?;
    Ok(Job {
        case: String::new(),
        requests: Vec::new(),
        www,
        downloads,
        certs,
        listen: ([127, 0, 0, 1], 0).into(),
        is_http3: false,
        preferred: None,
        seen: Arc::default(),
    })
}

/// Retries, handshakes with a certificate, accepted 0-RTT, key updates.
fn counts(job: &Job) -> [u32; 4] {
    let seen = &job.seen;
    [&seen.retries, &seen.certificates, &seen.early, &seen.updates].map(|count| count.load(Relaxed))
}

fn wanted(case: &str) -> [u32; 4] {
    let is = |other: &str| u32::from(case == other);
    [is("retry"), 1, is("zerortt"), is("keyupdate")]
}

/// Runs all cases between a server and a client.
macro_rules! between {
    ($server:ident, $client:ident) => {{
        let folder = tempfile::tempdir().unwrap();
        let prepared = prepare(folder.path()).unwrap();
        for (case, files, size) in CASES {
            let seen = Arc::default();
            let mut job = Job { case: case.to_owned(), is_http3: case == "http3", seen, ..prepared.clone() };
            let server = $server::endpoint::listen(&job).unwrap();
            let port = server.local_addr().unwrap().port();
            let names: Vec<String> = (0..files).map(|nth| format!("{case}-{nth}")).collect();
            for (nth, name) in names.iter().enumerate() {
                fs::write(job.www.join(name), vec![nth as u8; size]).unwrap();
            }
            job.requests = names.iter().map(|name| format!("https://127.0.0.1:{port}/{name}")).collect();
            let serving = tokio::spawn($server::endpoint::serve(server.clone(), Arc::new(job.clone())));
            $client::endpoint::fetch(job.clone()).await.unwrap_or_else(|error| panic!("{case}: {error}"));
            for name in names {
                let [sent, came] = [&job.www, &job.downloads].map(|folder| fs::read(folder.join(&name)));
                assert!(sent.unwrap() == came.unwrap(), "{case}: {name}");
            }
            assert_eq!(counts(&job), wanted(case), "{case}");
            server.close(0_u32.into(), b"");
            serving.await.unwrap();
        }
    }};
}

#[tokio::test]
async fn rc3_with_itself() {
    between!(over_rc3, over_rc3);
}

#[tokio::test]
async fn an_rc3_server_and_a_client_of_quinn() {
    between!(over_rc3, over_quinn);
}

#[tokio::test]
async fn a_server_of_quinn_and_an_rc3_client() {
    between!(over_quinn, over_rc3);
}

#[test]
fn files_outside_of_the_folder_are_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let job = prepare(folder.path()).unwrap();
    for path in ["/../certs/priv.key", "//etc/passwd", "/..", "/", ""] {
        assert!(job.read(path).is_err(), "{path}");
    }
}
