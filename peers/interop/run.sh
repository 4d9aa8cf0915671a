# What the environment of quic-interop-runner asks for, done by a peer in FOLDER: run.sh PEER FOLDER. Read by rc3-lab.
peer=$1 folder=$2
set -- $REQUESTS

unsupported() { exit 127; }

# each COMMAND...: a connection for each file.
each() {
    for url in $REQUESTS; do "$@" "$url" || exit; done
}

# twice FIRST SECOND: the first file by one command, then the others by another.
twice() {
    local first=$1 second=$2
    set -- $REQUESTS
    $first "$1" || exit
    shift
    exec $second "$@"
}

aioquic() {
    python=$folder/venv/bin/python
    if [ "$ROLE" = server ]; then
        case $TESTCASE in
        handshake | transfer | resumption | zerortt | http3 | multiconnect | chacha20 | ecn) retry= ;;
        retry) retry=--retry ;;
        *) unsupported ;;
        esac
        cd "$folder/examples"
        export STATIC_ROOT=/www
        exec "$python" http3_server.py --certificate /certs/cert.pem --private-key /certs/priv.key \
            --host 0.0.0.0 --port 443 $retry
    fi
    client="$python $folder/examples/http3_client.py --insecure --output-dir /downloads"
    legacy="$client --legacy-http" ticket="--session-ticket /logs/ticket"
    case $TESTCASE in
    handshake | transfer | retry | ecn) exec $legacy "$@" ;;
    http3) exec $client "$@" ;;
    chacha20) exec $legacy --cipher-suites CHACHA20_POLY1305_SHA256 "$@" ;;
    keyupdate) exec $legacy --key-update "$@" ;;
    multiconnect) each $legacy ;;
    resumption) twice "$legacy $ticket" "$legacy $ticket" ;;
    zerortt) twice "$legacy $ticket" "$legacy $ticket --zero-rtt" ;;
    *) unsupported ;;
    esac
}

ngtcp2() {
    chacha20=NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+CHACHA20-POLY1305
    if [ "$ROLE" = server ]; then
        case $TESTCASE in
        handshake | transfer | resumption | zerortt | http3 | multiconnect | ecn) more= ;;
        retry) more=-V ;;
        chacha20) more=--ciphers=$chacha20 ;;
        connectionmigration) more=--preferred-ipv4-addr=$SERVER_PARAMS ;;
        *) unsupported ;;
        esac
        exec gtlsserver -q -d /www $more '*' 443 /certs/priv.key /certs/cert.pem
    fi
    client="gtlsclient -q --exit-on-all-streams-close --download=/downloads" to="server4 443"
    ticket="--session-file=/logs/session --tp-file=/logs/parameters"
    case $TESTCASE in
    handshake | transfer | retry | http3 | ecn | connectionmigration) exec $client $to "$@" ;;
    chacha20) exec $client --ciphers=$chacha20 $to "$@" ;;
    keyupdate) exec $client --key-update=100ms $to "$@" ;;
    multiconnect) each $client $to ;;
    resumption) twice "$client $ticket $to" "$client $ticket --disable-early-data $to" ;;
    zerortt) twice "$client $ticket $to" "$client $ticket $to" ;;
    *) unsupported ;;
    esac
}

case $peer in
quic-go)
    if [ "$ROLE" = server ]; then exec "$folder/server"; fi
    exec "$folder/client" "$@"
    ;;
x-net)
    if [ "$ROLE" = server ]; then
        exec "$folder/interop" -cert=/certs/cert.pem -key=/certs/priv.key -listen=:443 -root=/www
    fi
    exec "$folder/interop" -output=/downloads "$@"
    ;;
s2n-quic) exec "$folder/rc3-peers" interop ;;
*) "$peer" "$@" ;;
esac
