-- What Neovim's built-in client, as it is installed, can do with `treadle serve`.
--
-- Takes its task, a JSON object, from the variable TREADLE_TASK: the daemon's command and the
-- folder it works in. Prints what it saw as one JSON object, and judges nothing: that is for the
-- test. Written for Neovim 0.7, the oldest that Debian still carries, and newer ones.

local task = vim.json.decode(os.getenv('TREADLE_TASK'))

-- Longer than anything here takes; the test has a bound of its own.
local PATIENCE_MS = 20000

local heard, asked = {}, {}
local exit

local function hear(method)
  return function(_, params)
    table.insert(heard, { method = method, params = params })
  end
end

local function until_(what, condition)
  if not vim.wait(PATIENCE_MS, condition, 5) then
    io.stderr:write(what .. ' never came\n')
    os.exit(1)
  end
end

local handlers = {
  ['window/showMessage'] = hear('message'),
  ['window/showMessageRequest'] = function(_, params)
    table.insert(asked, { method = 'window/showMessageRequest', params = params })
    return params.actions[#params.actions]
  end,
  ['workspace/configuration'] = function(_, params)
    table.insert(asked, { method = 'workspace/configuration', params = params })
    return { vim.NIL }
  end,
  ['$/progress'] = function(_, params)
    table.insert(heard, { method = params.token, params = params.value })
  end,
}
for _, name in ipairs({ 'state', 'delta', 'toolCall', 'toolResult', 'retrying', 'done' }) do
  handlers['session/' .. name] = hear('session/' .. name)
end

local capabilities = vim.lsp.protocol.make_client_capabilities()
-- 0.7 has both and does not say so of the first.
capabilities.workspace.configuration = true
capabilities.window.workDoneProgress = true

local id = assert(vim.lsp.start_client({
  name = 'treadle',
  cmd = task.command,
  root_dir = task.folder,
  capabilities = capabilities,
  handlers = handlers,
  -- Every change is sent as it is made.
  flags = { debounce_text_changes = 0 },
  trace = 'verbose',
  on_exit = function(code, signal)
    exit = { code = code, signal = signal }
  end,
}))
local client
until_('the introduction', function()
  client = vim.lsp.get_client_by_id(id)
  return client and client.initialized
end)

local function start(method, params)
  local answer = {}
  local _, request = client.request(method, params, function(err, result)
    answer.is_there = true
    answer.error = err
    answer.result = result
  end, 0)
  return answer, request
end

local function request(method, params)
  local answer = start(method, params)
  until_('the answer to ' .. method, function()
    return answer.is_there
  end)
  return { error = answer.error, result = answer.result }
end

local function has(method)
  return function()
    for _, each in ipairs(heard) do
      if each.method == method then
        return true
      end
    end
    return false
  end
end

local function pair(instance, members)
  return vim.tbl_extend('force', { agent = 'assistant', instance = instance }, members)
end

local function linked(uri)
  local prompt = { { type = 'resource_link', uri = uri, name = 'notes' } }
  return request('session/prompt', pair('d', { prompt = prompt })).result.text
end

local scenes = {}

function scenes.prompt()
  return request('session/prompt', pair('p', { prompt = 'Read the notes' }))
end

function scenes.progress()
  local members = { prompt = 'Read the notes', workDoneToken = 'work', partialResultToken = 'pieces' }
  return request('session/prompt', pair('p', members))
end

function scenes.cancelRequest()
  local _, number = start('session/prompt', pair('c', { prompt = 'Slow' }))
  until_('a delta', has('session/delta'))
  client.cancel_request(number)
  -- The answer to what it cancelled is told to nobody.
  until_('the end of the turn', function()
    local last = heard[#heard]
    return last.method == 'session/state' and last.params.state == 'idle'
  end)
end

function scenes.cancelProgress()
  local answer = start('session/prompt', pair('c', { prompt = 'Slow', workDoneToken = 'work' }))
  until_('a delta', has('session/delta'))
  client.notify('window/workDoneProgress/cancel', { token = 'work' })
  until_('the cancelled answer', function()
    return answer.is_there
  end)
  return { error = answer.error, result = answer.result }
end

local function edited(name, format)
  vim.cmd('edit ' .. vim.fn.fnameescape(task.folder .. '/' .. name))
  vim.bo.fileformat = format
  local buffer = vim.api.nvim_get_current_buf()
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, { 'one 😀 é', 'zwei two', 'two 😀😀!' })
  vim.lsp.buf_attach_client(buffer, id)
  vim.api.nvim_buf_set_text(buffer, 2, 4, 2, 8, { '🦩🦩' })
  vim.api.nvim_buf_set_text(buffer, 0, 9, 1, 4, { 'è', 'ywei' })
  vim.api.nvim_buf_set_lines(buffer, 1, 1, false, { 'new', '' })
  -- What follows is undone by itself.
  vim.bo.undolevels = vim.bo.undolevels
  vim.cmd('normal! GddggP')
  local uri = vim.uri_from_bufnr(buffer)
  local line_end = format == 'dos' and '\r\n' or '\n'
  local function seen()
    local lines = vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
    return { mine = table.concat(lines, line_end) .. line_end, daemons = linked(uri) }
  end
  local changed = seen()
  vim.cmd('undo')
  local undone = seen()
  vim.cmd('bdelete!')
  return { uri = uri, changed = changed, undone = undone, closed = linked(uri) }
end

function scenes.documents()
  return { unix = edited('notes é 😀.md', 'unix'), dos = edited('notes.txt', 'dos') }
end

function scenes.edits()
  vim.cmd('edit ' .. vim.fn.fnameescape(task.folder .. '/draft.txt'))
  local buffer = vim.api.nvim_get_current_buf()
  vim.lsp.buf_attach_client(buffer, id)
  vim.api.nvim_buf_set_lines(buffer, 1, 2, false, { 'zwei 😀' })
  local answer = request('session/prompt', {
    agent = 'coder', instance = 'e', prompt = 'Edit the draft',
  })
  local shown = vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
  local modified = vim.bo.modified
  vim.cmd('bdelete!')
  return { answer = answer, shown = shown, modified = modified }
end

function scenes.dialog()
  local members = { command = 'treadle.session.prompt', arguments = { 'What is new?' } }
  return request('workspace/executeCommand', members)
end

function scenes.unknown()
  return {
    request = request('session/promt', pair('p', {})),
    command = request('workspace/executeCommand', { command = 'treadle.session.promt' }),
    params = request('session/prompt', pair('p', {})),
  }
end

local report = {
  version = vim.version(),
  encoding = client.offset_encoding,
  hello = client.server_capabilities,
}
for _, name in ipairs({
  'prompt', 'progress', 'cancelRequest', 'cancelProgress', 'documents', 'edits', 'dialog', 'unknown',
}) do
  io.stderr:write(name .. '\n')
  heard, asked = {}, {}
  local result = scenes[name]()
  report[name] = { result = result, heard = heard, asked = asked }
end
client.stop()
until_('the exit', function()
  return exit
end)
report.exit = exit
io.stdout:write(vim.json.encode(report))
vim.cmd('qall!')
