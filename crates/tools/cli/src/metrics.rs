//! Metrics for Prometheus, served over HTTP by a thread of their own.

use std::{convert::Infallible, io, net::TcpListener, sync::Arc, thread, time::Duration};

use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;

/// A client slower than this is disconnected.
const SCRAPE_MAX: Duration = Duration::from_secs(10);
/// Most clients at once.
const READERS_MAX: usize = 16;
/// Time before the next try to accept a client: the process is probably out of file descriptors.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Serves `text`, which has this content type, as `/metrics` until the process ends. For `None` clients get an error.
///
/// # Errors
/// When a system call fails.
pub fn serve(
    listener: TcpListener,
    content_type: &'static str,
    text: impl Fn() -> Option<String> + Send + Sync + 'static,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let text = Arc::new(text);
    thread::Builder::new().name("metrics".to_owned()).spawn(move || {
        runtime.block_on(listen(listener, content_type, text));
    })?;
    Ok(())
}

async fn listen<F>(listener: TcpListener, content_type: &'static str, text: Arc<F>)
where
    F: Fn() -> Option<String> + Send + Sync + 'static,
{
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let places = Arc::new(Semaphore::new(READERS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
            continue;
        };
        let text = Arc::clone(&text);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let response = respond(&request, content_type, &*text);
                async move { Ok::<_, Infallible>(response) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            let _ = tokio::time::timeout(SCRAPE_MAX, connection).await;
            drop(place);
        });
    }
}

fn respond(
    request: &Request<Incoming>,
    content_type: &'static str,
    text: impl Fn() -> Option<String>,
) -> Response<Full<Bytes>> {
    let (status, body) = match (request.uri().path(), request.method()) {
        ("/metrics", &Method::GET) => match text() {
            Some(text) => (StatusCode::OK, text),
            None => (StatusCode::SERVICE_UNAVAILABLE, String::new()),
        },
        ("/metrics", _) => (StatusCode::METHOD_NOT_ALLOWED, String::new()),
        _ => (StatusCode::NOT_FOUND, String::new()),
    };
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response
}
