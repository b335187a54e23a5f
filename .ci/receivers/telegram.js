// Starts telegram-test-api on the given port.
const TelegramServer = require('telegram-test-api');

new TelegramServer({ port: Number(process.argv[2]), host: '127.0.0.1', storeTimeout: 3600 }).start();
