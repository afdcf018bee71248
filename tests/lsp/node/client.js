// What an extension's author would write against `treadle serve`, on VS Code's own libraries.
//
// Takes one JSON argument: the daemon's command, the position encodings it says it knows and the
// folder it works in. Does everything an editor does, prints what it saw as one JSON object, and
// judges nothing: that is for the test.

import { spawn } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import lsp from 'vscode-languageserver-protocol/node';

const { command, positionEncodings, folder } = JSON.parse(process.argv[2]);

const AGENT = 'assistant';
const daemon = spawn(command[0], command.slice(1), { stdio: ['pipe', 'pipe', 'pipe'] });
const written = [];
const complaints = [];
daemon.stdout.on('data', (chunk) => written.push(chunk));
daemon.stderr.on('data', (chunk) => complaints.push(chunk));
const exited = new Promise((resolve) =>
    daemon.on('exit', (code, signal) => resolve({ code, signal })));

const connection = lsp.createProtocolConnection(
    new lsp.StreamMessageReader(daemon.stdout), new lsp.StreamMessageWriter(daemon.stdin));
const troubles = [];
connection.onError(([error]) => troubles.push(String(error)));
connection.onUnhandledNotification((message) => troubles.push(`unhandled ${message.method}`));
connection.onUnhandledProgress(({ token }) => troubles.push(`unhandled progress of ${token}`));

// Everything heard, in order; what waits for news is woken by each of it.
let heard = [];
let wake = () => {};
function hear(method, params) {
    heard.push({ method, params });
    wake();
}
async function until(condition) {
    while (!condition()) {
        await new Promise((resolve) => { wake = resolve; });
    }
}
for (const method of ['state', 'delta', 'toolCall', 'toolResult', 'retrying', 'done']) {
    connection.onNotification(`session/${method}`, (params) => hear(`session/${method}`, params));
}
connection.onNotification(lsp.ShowMessageNotification.type, (params) => hear('message', params));
connection.onNotification(lsp.LogMessageNotification.type, (params) => hear('log', params));

// What the daemon may ask, and how this editor answers.
let asked = [];
let settings = null;
function answer(type, reply) {
    connection.onRequest(type, (params) => {
        asked.push({ method: type.method, params });
        wake();
        return reply(params);
    });
}
answer(lsp.RegistrationRequest.type, () => null);
answer(lsp.ConfigurationRequest.type, (params) => params.items.map(() => settings));
answer(lsp.WorkDoneProgressCreateRequest.type, (params) => {
    listen(params.token);
    return null;
});
answer(lsp.ShowMessageRequest.type, (params) => params.actions.at(-1));
answer(lsp.ShowDocumentRequest.type, () => ({ success: true }));

function listen(token) {
    return connection.onProgress(lsp.WorkDoneProgress.type, token, (value) => hear(token, value));
}

function pair(instance, members) {
    return { agent: AGENT, instance, ...members };
}

async function failure(promise) {
    try {
        return { result: await promise };
    } catch (error) {
        return { code: error.code, message: error.message, data: error.data };
    }
}

// Runs a scene of its own and returns what was heard in it, its own result last.
async function scene(play) {
    heard = [];
    asked = [];
    const result = await play();
    return { result, heard, asked };
}

function run(name, ...args) {
    return connection.sendRequest(
        lsp.ExecuteCommandRequest.type, { command: `treadle.${name}`, arguments: args });
}

const scenes = {
    prompt: () => connection.sendRequest('session/prompt', pair('p', { prompt: 'Read the notes' })),

    async progress() {
        const pieces = new lsp.ProgressType();
        const listeners = [
            listen('work'),
            connection.onProgress(pieces, 'pieces', (value) => hear('pieces', value)),
        ];
        const result = await connection.sendRequest('session/prompt', pair('p', {
            prompt: 'Read the notes', workDoneToken: 'work', partialResultToken: 'pieces',
        }));
        listeners.forEach((each) => each.dispose());
        return result;
    },

    async cancelRequest() {
        const source = new lsp.CancellationTokenSource();
        const prompt = failure(
            connection.sendRequest('session/prompt', pair('c', { prompt: 'Slow' }), source.token));
        await until(() => heard.some(({ method }) => method === 'session/delta'));
        source.cancel();
        return prompt;
    },

    async cancelProgress() {
        const listener = listen('work');
        const prompt = connection.sendRequest(
            'session/prompt', pair('c', { prompt: 'Slow', workDoneToken: 'work' }));
        await until(() => heard.some(({ method }) => method === 'session/delta'));
        await connection.sendNotification(
            lsp.WorkDoneProgressCancelNotification.type, { token: 'work' });
        const result = await prompt;
        listener.dispose();
        return result;
    },

    async documents() {
        const uri = pathToFileURL(`${folder}/notes é 😀.md`).href;
        await connection.sendNotification(lsp.DidOpenTextDocumentNotification.type, {
            textDocument: { uri, languageId: 'markdown', version: 1, text: document.text },
        });
        await document.change(uri, '😀', '🦩🦩');
        await document.change(uri, 'é\r\nz', 'è\r\ny');
        await document.change(uri, 'two', '2', 'wei', 'w\r\nei', '!', '!\n');
        const opened = await linked(uri);
        await connection.sendNotification(
            lsp.DidCloseTextDocumentNotification.type, { textDocument: { uri } });
        return { mine: document.text, opened, closed: await linked(uri), uri };
    },

    dialog: () => run('session.prompt', 'What is new?'),

    async configured() {
        settings = { agent: AGENT, instance: 'from settings' };
        const result = await run('session.prompt', 'What is new?');
        settings = null;
        return result;
    },

    async showDocument() {
        await run('session.prompt', pair('long', { prompt: 'Long' }));
        // It is shown aside of the reply.
        await until(() => asked.some(({ method }) => method === 'window/showDocument'));
        const { params } = asked.find(({ method }) => method === 'window/showDocument');
        const path = fileURLToPath(params.uri);
        return {
            text: readFileSync(path, 'utf-8'),
            mode: process.platform === 'win32' ? 0o600 : statSync(path).mode & 0o777,
        };
    },

    unknown: async () => ({
        request: await failure(connection.sendRequest('session/promt', pair('p'))),
        lsp: await failure(connection.sendRequest(
            lsp.HoverRequest.type, { textDocument: { uri: 'file:///x' }, position: { line: 0, character: 0 } })),
        command: await failure(run('session.promt')),
        params: await failure(connection.sendRequest('session/prompt', pair('p'))),
        agent: await failure(connection.sendRequest('session/prompt', { agent: 'no', instance: 'p', prompt: 'x' })),
    }),

    async trace() {
        const traced = [];
        const tracer = {
            // The library traces what it sends and gets itself, too.
            log(message, data) {
                if (message.startsWith('session/')) {
                    traced.push({ message, data });
                }
                wake();
            },
        };
        await connection.trace(lsp.Trace.Verbose, tracer, true);
        await connection.sendRequest('session/close', pair('p'));
        await connection.sendRequest('session/close', pair('p'));
        await until(() => traced.length === 2);
        await connection.trace(lsp.Trace.Off, tracer, true);
        return traced;
    },
};

// A document as an editor keeps it, and its positions in the units that were agreed on.
const document = {
    text: 'one 😀 é\r\nzwei two\ntwo 😀😀!',
    version: 1,
    encoding: 'utf-16',

    position(offset) {
        const lines = this.text.slice(0, offset).split(/\r\n|\n|\r/);
        const before = lines.at(-1);
        return {
            line: lines.length - 1,
            character: this.encoding === 'utf-8' ? Buffer.byteLength(before) : before.length,
        };
    },

    // Replaces words one after the other, in one notification.
    async change(uri, ...words) {
        const contentChanges = [];
        for (let i = 0; i < words.length; i += 2) {
            const start = this.text.lastIndexOf(words[i]);
            const end = start + words[i].length;
            contentChanges.push({
                range: { start: this.position(start), end: this.position(end) },
                text: words[i + 1],
            });
            this.text = this.text.slice(0, start) + words[i + 1] + this.text.slice(end);
        }
        this.version += 1;
        await connection.sendNotification(lsp.DidChangeTextDocumentNotification.type, {
            textDocument: { uri, version: this.version }, contentChanges,
        });
    },
};

// What the model reads of a prompt that is nothing but a link.
async function linked(uri) {
    const prompt = [{ type: 'resource_link', uri, name: 'notes' }];
    return (await connection.sendRequest('session/prompt', pair('d', { prompt }))).text;
}

function onlyFrames(bytes) {
    let rest = bytes;
    while (rest.length > 0) {
        const head = /^Content-Length: (\d+)\r\n\r\n/.exec(rest.subarray(0, 64).toString('latin1'));
        if (head === null) {
            return rest.subarray(0, 200).toString();
        }
        rest = rest.subarray(head[0].length + Number(head[1]));
    }
    return 'only frames';
}

async function main() {
    connection.listen();
    const hello = await connection.sendRequest(lsp.InitializeRequest.type, {
        processId: process.pid,
        clientInfo: { name: 'an extension', version: '1' },
        rootUri: pathToFileURL(folder).href,
        workspaceFolders: [{ uri: pathToFileURL(folder).href, name: 'work' }],
        capabilities: {
            general: { positionEncodings },
            window: {
                workDoneProgress: true,
                showDocument: { support: true },
                showMessage: { messageActionItem: { additionalPropertiesSupport: true } },
            },
            workspace: {
                configuration: true,
                workspaceFolders: true,
                didChangeConfiguration: { dynamicRegistration: true },
                executeCommand: { dynamicRegistration: true },
            },
            textDocument: { synchronization: { dynamicRegistration: true, didSave: true } },
        },
    });
    document.encoding = hello.capabilities.positionEncoding;
    await connection.sendNotification(lsp.InitializedNotification.type, {});
    const report = { hello };
    for (const [name, play] of Object.entries(scenes)) {
        process.stderr.write(`${name}\n`);
        report[name] = await scene(play);
    }
    await connection.sendRequest(lsp.ShutdownRequest.type);
    await connection.sendNotification(lsp.ExitNotification.type);
    report.exit = await exited;
    report.troubles = troubles;
    report.output = onlyFrames(Buffer.concat(written));
    report.complaints = Buffer.concat(complaints).toString();
    process.stdout.write(JSON.stringify(report));
}

await main();
process.exit(0);
