<?php
function report(string $what = "", string $text = ""): void
{
    $options = ["method" => "POST", "content" => $text, "timeout" => 10,
        "header" => "Content-Type: text/plain"];
    $context = stream_context_create(["http" => $options]);
    for ($attempt = 0; $attempt < 4; $attempt++) {
        if (@file_get_contents("PING_URL" . $what, false, $context) !== false) {
            return;
        }
    }
    error_log("report: the server did not accept the ping");
}

report("/start");
try {
    job();
    report();
} catch (Throwable $error) {
    report("/fail", $error->getMessage());
    throw $error;
}
