-- One of several editor windows on a session of the shared daemon: it watches, and is asked.
--
-- Takes its task, a JSON object, from the variable TREADLE_TASK: the command that reaches the
-- daemon, the session, and what its person answers; where that is nothing the dialog stays open
-- until the daemon tells that the question is settled. Prints what it saw as one JSON object.

local task = vim.json.decode(os.getenv('TREADLE_TASK'))

-- Longer than anything here takes; the test has a bound of its own.
local PATIENCE_MS = 50000

local heard, asked, closed = {}, {}, {}
local events = { 'state', 'delta', 'toolCall', 'toolResult', 'said', 'asked', 'settled', 'done' }

local function until_(what, condition)
  if not vim.wait(PATIENCE_MS, condition, 5) then
    io.stderr:write(what .. ' never came\n')
    os.exit(1)
  end
end

local function last(method)
  for index = #heard, 1, -1 do
    if heard[index].method == method then
      return heard[index].params
    end
  end
end

local handlers = {
  ['session/requestPermission'] = function(_, params)
    table.insert(asked, params)
    if task.outcome then
      return { outcome = task.outcome }
    end
    until_('the end of the question', function()
      return last('session/settled')
    end)
    table.insert(closed, last('session/settled').outcome)
    return vim.NIL
  end,
}
for _, name in ipairs(events) do
  handlers['session/' .. name] = function(_, params)
    table.insert(heard, { method = 'session/' .. name, params = params })
  end
end

local capabilities = vim.lsp.protocol.make_client_capabilities()
capabilities.experimental = { treadle = { requestPermission = true } }

local exit
local id = assert(vim.lsp.start_client({
  name = 'treadle',
  cmd = task.command,
  root_dir = task.folder,
  capabilities = capabilities,
  handlers = handlers,
  on_exit = function(code)
    exit = code
  end,
}))
local client
until_('the introduction', function()
  client = vim.lsp.get_client_by_id(id)
  return client and client.initialized
end)

local attached
client.request('session/attach', task.session, function(_, result)
  attached = result
end, 0)
until_('the snapshot', function()
  return attached
end)
until_('the end of the turn', function()
  local state = last('session/state')
  return last('session/done') and state and state.state == 'idle'
end)
vim.lsp.stop_client(id)
until_('the end of the client', function()
  return exit ~= nil
end)
io.stdout:write(vim.json.encode({
  attached = attached,
  heard = heard,
  asked = asked,
  closed = closed,
  exit = exit,
}))
vim.cmd('qall!')
