// telegram-test-api on the port that is given.
const TelegramServer = require('telegram-test-api');

new TelegramServer({ port: Number(process.argv[2]), host: '127.0.0.1', storeTimeout: 3600 }).start();
